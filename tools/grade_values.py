"""Values as JSON, and back: what travels between the two processes that ``grade_wire.py`` joins.

What can be changed (a list, an array) is of a *kind*: a class that says what the content of one
is, makes another of it in the other process, and lets that take over a new content later. The kinds
of MXNet and PyTorch are in ``grade_tensors.py``.
"""

import base64
import collections.abc
import pickle
from fractions import Fraction

import numpy as np

PLAIN = bool, int, str, type(None)


class Broken(BaseException):  # no check catches it
    """What the other process has sent is no message."""


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
    """Give JSON for what cannot be changed; None for anything else."""
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
    """Give JSON for what can be gone through, such as a range or a generator; or None."""
    if isinstance(value, type) or not isinstance(value, collections.abc.Iterable):
        return None
    kind = 'iter' if isinstance(value, collections.abc.Iterator) else 'items'
    return {'k': kind, 'v': [encode(x) for x in value]}


CONSTANTS = {  # by the name of a kind: what makes one of its JSON
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
    """What can be changed, and here what most kinds do. Nothing is made of one: it is a table."""

    filled = False  # whether one is made empty, and given its content when it is known by number
    stays = False  # whether one that a student has made is told by number alone
    pickled = False  # whether one is pickled, to the student's process alone

    def more(wire, value):
        """Give what is told of one only when it is first sent."""
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
    """An object whose attributes are all that there is to it."""

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
