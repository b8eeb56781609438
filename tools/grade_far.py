"""Proxies for objects that stay in the other process: functions, and the checks' objects."""

import types

from grade_tensors import torch_or_none

OURS = 'mgpu_exercises', 'mgpu_helpers.collectives.messages'
OPERATORS = 'len getitem setitem add radd iadd mul rmul sub truediv call enter exit'.split()


def is_ours(value):
    """Return whether an object must stay in the checks' process: a check counts its calls."""
    kind = value if isinstance(value, type) else type(value)
    if kind in (types.FunctionType, types.MethodType):
        return value.__module__.startswith(OURS) and (
            '<' in value.__qualname__ or kind != types.FunctionType
        )
    torch = torch_or_none()
    return (
        kind.__module__.startswith(OURS)
        and not getattr(kind, 'BY_VALUE', False)
        and not (torch and issubclass(kind, torch.nn.Module))
    )


class Far:
    """A proxy for a function or an object in the other process."""

    def __init__(self, wire, number, name):
        self.__dict__['_wire'], self.__dict__['_number'] = wire, number
        self.__dict__['__name__'] = name

    def __call__(self, *args, **options):
        return self._wire.ask(do='call', of=self._number, args=args, options=options)


class FarObject(Far):
    """A proxy for an object whose attributes can be read as well."""

    def __getattr__(self, name):
        if name.startswith('_'):
            raise AttributeError(name)
        return self._wire.ask(do='get', of=self._number, args=(name,), options={})


class Opaque:
    """A student's object that is not data: it can only be passed back to their functions."""


def operator(name):
    def call(self, *args):
        return self._wire.ask(do=f'__{name}__', of=self._number, args=args, options={})

    return call


def told(value, number, decides):
    """Return JSON for an object that stays here: its number; for the checks' own, its operators."""
    name = getattr(value, '__name__', type(value).__name__)
    found = {'k': 'far', 'n': number, 'call': callable(value), 'v': str(name)[:40]}
    if decides and not isinstance(value, types.FunctionType | types.MethodType):
        found['has'] = [x for x in OPERATORS if hasattr(type(value), f'__{x}__')]
    return found


def standing_for(sent, wire):
    """Return the proxy for an object that was sent as ``told`` describes it."""
    if wire.decides:
        return Far(wire, sent['n'], 'your function') if sent['call'] is True else Opaque()
    if 'has' not in sent:
        return Far(wire, sent['n'], sent['v'])
    operators = {f'__{x}__': operator(x) for x in sent['has'] if x != 'call'}
    return type('Far', (FarObject,), operators)(wire, sent['n'], sent['v'])
