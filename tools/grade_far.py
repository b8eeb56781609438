"""What stays in its process, and is reached from the other one: functions, the checks' objects."""

import types

from grade_tensors import torch_or_none

OURS = 'mgpu_exercises', 'mgpu_helpers.collectives.messages'
OPERATORS = 'len getitem setitem add radd iadd mul rmul sub truediv call enter exit'.split()


def is_ours(value):
    """Tell whether an object of the checks stays with them: what it hears decides."""
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
    """What stands for a function or an object of the other process."""

    def __init__(self, wire, number, name):
        self.__dict__['_wire'], self.__dict__['_number'] = wire, number
        self.__dict__['__name__'] = name

    def __call__(self, *args, **options):
        return self._wire.ask(do='call', of=self._number, args=args, options=options)


class FarObject(Far):
    """What has attributes there, too."""

    def __getattr__(self, name):
        if name.startswith('_'):
            raise AttributeError(name)
        return self._wire.ask(do='get', of=self._number, args=(name,), options={})


class Opaque:
    """Something of a student's that is no data: it can be handed back to their functions."""


def operator(name):
    def call(self, *args):
        return self._wire.ask(do=f'__{name}__', of=self._number, args=args, options={})

    return call


def told(value, number, decides):
    """Give JSON for what stays here, under its number; of an object, which operators it has."""
    name = getattr(value, '__name__', type(value).__name__)
    found = {'k': 'far', 'n': number, 'call': callable(value), 'v': str(name)[:40]}
    if decides and not isinstance(value, types.FunctionType | types.MethodType):
        found['has'] = [x for x in OPERATORS if hasattr(type(value), f'__{x}__')]
    return found


def standing_for(sent, wire):
    """Make what stands for it in the other process."""
    if wire.decides:
        return Far(wire, sent['n'], 'your function') if sent['call'] is True else Opaque()
    if 'has' not in sent:
        return Far(wire, sent['n'], sent['v'])
    operators = {f'__{x}__': operator(x) for x in sent['has'] if x != 'call'}
    return type('Far', (FarObject,), operators)(wire, sent['n'], sent['v'])
