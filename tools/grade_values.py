"""Convert values to JSON and back, for the two processes that ``grade_wire.py`` connects.

A mutable value (a list, an array) has a *kind*: a class that returns its content, creates a copy
from that in the other process, and updates the copy when the content changes. The kinds for MXNet
and PyTorch are in ``grade_tensors.py``.
"""

import base64
import collections.abc
import pickle
from fractions import Fraction

import numpy as np

PLAIN = bool, int, str, type(None)


class Broken(BaseException):  # so no check catches it
    """The other process has sent something that is not a valid message."""


def text_of(data):
    return base64.b64encode(data).decode()


def bytes_of(text):
    return base64.b64decode(text)


def json_only(value):
    return type(value) in (*PLAIN, float) or (type(value) is list and all(map(json_only, value)))


def plain_dtype(text):
    kind = np.dtype(str(text))
    if kind.kind not in 'biufc?SU':
        raise Broken
    return kind


def constant(value, encode):
    """Return JSON for an immutable value, or None for anything else."""
    if value is ...:
        return {'k': 'ellipsis'}
    if isinstance(value, np.generic):
        value = np.asarray(value)
        return {'k': 'scalar', 'v': [value.dtype.str, text_of(value.tobytes())]}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {'k': 'np', 'v': np.dtype(value).str}
    if isinstance(value, bytes | bytearray):
        return {'k': 'bytes', 'v': text_of(value)}
    if type(value) in (complex, Fraction):
        return {'k': type(value).__name__, 'v': str(value)}
    if isinstance(value, slice):
        return {'k': 'slice', 'v': [encode(x) for x in (value.start, value.stop, value.step)]}
    if isinstance(value, tuple):
        return {'k': 'tuple', 'v': [encode(x) for x in value]}
    if isinstance(value, set | frozenset):
        return {'k': 'set', 'v': [encode(x) for x in value]}
    return None


def items(value, encode):
    """Return JSON for an iterable, such as a range or a generator, or None for anything else."""
    if isinstance(value, type) or not isinstance(value, collections.abc.Iterable):
        return None
    kind = 'iter' if isinstance(value, collections.abc.Iterator) else 'items'
    return {'k': kind, 'v': [encode(x) for x in value]}


CONSTANTS = {  # for each name of a kind: a function that decodes its JSON
    'ellipsis': lambda v, decode: ...,
    'scalar': lambda v, decode: np.frombuffer(bytes_of(v[1]), plain_dtype(v[0]))[0],
    'np': lambda v, decode: plain_dtype(v),
    'bytes': lambda v, decode: bytes_of(v),
    'complex': lambda v, decode: complex(v),
    'Fraction': lambda v, decode: Fraction(v),
    'slice': lambda v, decode: slice(*map(decode, v)),
    'tuple': lambda v, decode: tuple(map(decode, v)),
    'set': lambda v, decode: set(map(decode, v)),
    'iter': lambda v, decode: iter([decode(x) for x in v]),
    'items': lambda v, decode: [decode(x) for x in v],
}


class Kind:
    """The base of all kinds of mutable values, with their defaults; it is never instantiated."""

    filled = False  # whether it is created empty and filled once it has a number
    stays = False  # whether one that a student has created is sent by number only
    pickled = False  # whether it is pickled (only to the student's process)

    def more(wire, value):
        """Return additional JSON for the first time that the value is sent."""
        return {}


class List(Kind):
    name, filled = 'list', True

    def content(wire, value):
        return [wire.encode(x) for x in value]

    def make(wire, sent):
        return []

    def apply(wire, value, v, before):
        value[:] = [wire.decode(x) for x in v]


class Dict(Kind):
    name, filled = 'dict', True

    def content(wire, value):
        return [[wire.encode(k), wire.encode(v)] for k, v in value.items()]

    def make(wire, sent):
        return {}

    def apply(wire, value, v, before):
        new = {wire.decode(k): wire.decode(x) for k, x in v}
        value.clear()
        value.update(new)


class Space(Kind):
    """An object that is fully described by its attributes."""

    name, filled, stays = 'space', True, True

    def content(wire, value):
        return [[k, wire.encode(v)] for k, v in vars(value).items()]

    def more(wire, value):
        return {'of': text_of(pickle.dumps(type(value)))}

    def make(wire, sent):
        if wire.decides:
            raise Broken
        kind = pickle.loads(bytes_of(sent['of']))
        return kind.__new__(kind)

    def apply(wire, value, v, before):
        for name, x in v:
            if name.startswith('_'):
                raise Broken
            setattr(value, name, wire.decode(x))


class Array(Kind):
    name = 'array'

    def content(wire, value):
        data = np.ascontiguousarray(value).tobytes()
        return [value.dtype.str, list(value.shape), text_of(data)]

    def array(v):
        return np.frombuffer(bytes_of(v[2]), plain_dtype(v[0])).reshape(v[1]).copy()

    def make(wire, sent):
        return Array.array(sent['v'])

    def apply(wire, value, v, before):
        value[...] = Array.array(v)
