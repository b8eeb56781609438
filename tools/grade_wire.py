"""How what decides on an answer calls it: two processes that exchange data, and no code.

The checks run in one process (``grade_checks.py``), the answer in another (``grade_answers.py``).
When a check calls a student's function, the other process is asked to, and says what was given
back and what has changed in lists, arrays and tensors. When the function calls what it was given
(``dist``, ``sync``), the first process is asked in turn. Pickles travel to the answer alone: what
comes from it is JSON, of numbers, words and bytes.
"""

import base64
import builtins
import collections
import contextlib
import copy
import io
import json
import pickle
import sys
import types
from fractions import Fraction

import cloudpickle
import numpy as np

from mgpu_exercises.checking import Away, Hint, Noted

OURS = 'mgpu_exercises', 'mgpu_helpers.collectives.messages'
OPERATORS = 'len getitem setitem add radd iadd mul rmul sub truediv call enter exit'.split()
PLAIN = bool, int, str, type(None)


class Broken(BaseException):  # no check catches it
    """What the other process has sent is no message."""


def torch_or_none():
    return sys.modules.get('torch')


def nd_class():
    mx = sys.modules.get('mxnet')
    return mx.nd.NDArray if mx else ()


def text_of(data):
    return base64.b64encode(data).decode()


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


def operator(name):
    def call(self, *args):
        return self._wire.ask(do=f'__{name}__', of=self._number, args=args, options={})

    return call


class Wire:
    """One end; ``exchange`` sends a message, and gives the next one that comes."""

    def __init__(self, exchange, decides):
        self.exchange, self.decides = exchange, decides
        self.objects, self.numbers, self.shown, self.next = {}, {}, {}, 0 if decides else 1
        self.places, self.depth = {}, 0  # where a tensor's numbers were; calls within calls
        self.odd = set()  # what a student's numbers do in their own way
        self.final = False  # is this what a function of a student's gives? It is not followed up

    # What is sent.

    def number_of(self, value):
        number, self.next = self.next, self.next + 2
        self.register(number, value)
        return number

    def register(self, number, value):
        self.numbers.pop(id(self.objects.get(number)), None)
        self.objects[number], self.numbers[id(value)] = value, number
        if self.kind_of(value) == 'tensor':
            self.places[number] = value.data_ptr()

    def encode(self, value):
        """Give JSON for a value; of lists, arrays and the like, later changes are told as well."""
        kind = type(value)
        if kind in PLAIN or kind is float:
            return value
        if id(value) in self.numbers:
            return {'r': self.numbers[id(value)]}
        if kind is Noted:
            return self.encode(value.function)
        if value is ...:
            return {'k': 'ellipsis'}
        if isinstance(value, np.generic):
            value = np.asarray(value)
            return {'k': 'scalar', 'v': [value.dtype.str, text_of(value.tobytes())]}
        if kind in (bytes, bytearray):
            return {'k': 'bytes', 'v': text_of(value)}
        if kind in (complex, Fraction):
            return {'k': kind.__name__, 'v': str(value)}
        if self.decides and is_ours(value):
            return self.far(value)
        named = self.named(value)
        if named:
            return named
        for base in PLAIN[1:3] + (float,):  # a subclass travels as what it is
            if isinstance(value, base):
                if '__eq__' in vars(kind):
                    self.odd.add(f'{base.__name__}.__eq__')
                return base(value)
        if isinstance(value, slice):
            return {
                'k': 'slice',
                'v': [self.encode(x) for x in (value.start, value.stop, value.step)],
            }
        if isinstance(value, tuple):
            return {'k': 'tuple', 'v': [self.encode(x) for x in value]}
        if isinstance(value, set | frozenset):
            return {'k': 'set', 'v': [self.encode(x) for x in value]}
        if what := self.kind_of(value):
            return self.mirrored(what, value)
        if isinstance(value, collections.abc.Iterable) and not isinstance(value, type):
            return {'k': 'iter' if isinstance(value, collections.abc.Iterator) else 'list',
                    'v': [self.encode(x) for x in value]}  # fmt: skip
        return self.pickled(value) if self.decides else self.far(value)

    def far(self, value):
        name = getattr(value, '__name__', type(value).__name__)
        found = {
            'k': 'far',
            'n': self.number_of(value),
            'call': callable(value),
            'v': str(name)[:40],
        }
        if self.decides and not isinstance(value, types.FunctionType | types.MethodType):
            found['has'] = [x for x in OPERATORS if hasattr(type(value), f'__{x}__')]
        return found

    def named(self, value):
        torch, mx = torch_or_none(), sys.modules.get('mxnet')
        if torch and isinstance(value, torch.dtype | torch.device):
            return {'k': type(value).__name__, 'v': str(value).removeprefix('torch.')}
        if torch and type(value).__name__ == 'RedOpType':
            return {'k': 'op', 'v': value.name}
        if mx and isinstance(value, mx.Context):
            return {'k': 'context', 'v': [value.device_type, value.device_id]}
        if isinstance(value, np.dtype) or (
            isinstance(value, type) and issubclass(value, np.generic)
        ):
            return {'k': 'np', 'v': np.dtype(value).str}
        return None

    @staticmethod
    def kind_of(value):
        """Name what changes of a value are told, or None."""
        torch = torch_or_none()
        if torch:
            for name, kind in (('tensor', torch.Tensor), ('module', torch.nn.Module),
                               ('optimizer', torch.optim.Optimizer)):  # fmt: skip
                if isinstance(value, kind):
                    return name
        if nd_class() and isinstance(value, nd_class()):
            return 'nd'
        if isinstance(value, np.ndarray):
            return 'array' if value.dtype != object else None
        if isinstance(value, list | dict):
            return 'list' if isinstance(value, list) else 'dict'
        by_value = isinstance(value, types.SimpleNamespace) or getattr(
            type(value), 'BY_VALUE', False
        )
        return 'space' if by_value else None

    def mirrored(self, kind, value):
        if kind in ('module', 'optimizer', 'space') and not self.decides:  # it stays there
            return self.far(value)
        if kind in ('module', 'optimizer'):
            return self.pickled(value, kind)
        found = {'k': kind, 'n': self.number_of(value)}
        found['v'] = self.content(value)
        self.note(found['n'])
        if kind == 'tensor':
            found['v'] |= self.graph_of(value)
        if kind == 'space':
            found['of'] = text_of(pickle.dumps(type(value)))
        return found

    def graph_of(self, tensor):
        """Tell which tensors of the checks a tensor depends upon, by the student's own passes."""
        torch = torch_or_none()
        if self.decides or tensor.grad_fn is None or self.depth:
            return {'leaf': True, 'param': self.decides and isinstance(tensor, torch.nn.Parameter)}
        known = {n: x for n, x in self.objects.items() if n % 2 == 0}
        known = {n: x for n, x in known.items() if isinstance(x, torch.Tensor)}
        leaves = {n: x for n, x in known.items() if x.is_leaf and x.requires_grad}
        try:
            grads = torch.autograd.grad(
                tensor.sum(), [*leaves.values()], retain_graph=True, allow_unused=True
            )
        except RuntimeError:
            grads = ()
        return {'leaf': False, 'of': [n for n, g in zip(leaves, grads) if g is not None]}

    def pickled(self, value, kind='pickle', found=None):
        """Pickle what is no data, with tensors and what is ours in it told by number."""
        wire, found = self, found or {'k': kind, 'n': self.number_of(value)}

        class Pickler(cloudpickle.Pickler):
            def persistent_id(self, part):
                if part is value or isinstance(part, PLAIN):
                    return None
                torch = torch_or_none()
                if (
                    (torch and isinstance(part, torch.Tensor))
                    or type(part) is Noted
                    or (type(part) is not type and is_ours(part))
                    or id(part) in wire.numbers
                ):
                    return json.dumps(wire.encode(part))
                return None

        file = io.BytesIO()
        Pickler(file).dump(value)
        found['pickle'] = text_of(file.getvalue())
        if kind == 'module':
            parts = [*value.modules()][1:]
            found['parts'] = [self.numbers.get(id(p)) or self.number_of(p) for p in parts]
        if kind != 'pickle':
            self.note(found['n'])
        return found

    def content(self, value):
        """Give what changes of a value: JSON."""
        kind = self.kind_of(value)
        if kind == 'list':
            return [self.encode(x) for x in value]
        if kind == 'dict':
            return [[self.encode(k), self.encode(v)] for k, v in value.items()]
        if kind == 'array':
            return [
                value.dtype.str,
                list(value.shape),
                text_of(np.ascontiguousarray(value).tobytes()),
            ]
        if kind == 'nd':
            grad = value.grad
            arrays = [value.asnumpy(), None if grad is None else grad.asnumpy()]
            return [
                self.named(value.context)['v'],
                *(x is not None and self.content(x) for x in arrays),
            ]
        if kind == 'tensor':
            data = value.detach().clone(memory_format=torch_or_none().contiguous_format)
            raw = data.view(-1).view(torch_or_none().uint8) if data.numel() else data
            place = value.data_ptr()
            return {
                'type': str(value.dtype)[6:], 'shape': list(value.shape),
                'needs': value.requires_grad, 'data': text_of(raw.cpu().numpy().tobytes()),
                'moved': place != self.places.get(self.numbers.get(id(value)), place),
                'grad': self.encode(value.grad) if value.is_leaf else None,
            }  # fmt: skip
        if kind == 'space':
            return [[k, self.encode(v)] for k, v in vars(value).items()]
        if kind == 'optimizer':
            return [
                [[k, v] for k, v in g.items() if isinstance(v, float | int)]
                for g in value.param_groups
            ]
        parts = [*value.modules()]
        tensors = [*value.named_parameters(), *value.named_buffers()]
        plain = {k: v for k, v in vars(value).items() if k[0] != '_' and json_only(v)}
        return [[p.training for p in parts], [[n, self.encode(t)] for n, t in tensors], plain]

    def note(self, number):
        if not self.final:
            self.shown[number] = json.dumps(self.content(self.objects[number]))

    def changes(self):
        """Give what has changed since the other process knew it."""
        found = []
        for number in [*self.shown]:
            content = self.content(self.objects[number])
            if json.dumps(content) != self.shown[number]:
                found.append([number, content])
                self.note(number)  # what is new in it is known by its number now
        return found

    # What comes.

    def decode(self, sent):
        """Give the value that was sent."""
        if not isinstance(sent, dict):
            if type(sent) not in (*PLAIN, float):
                raise Broken
            return sent
        if 'r' in sent:
            return self.objects[sent['r']]
        kind, number, v = sent['k'], sent.get('n'), sent.get('v')
        if self.decides and number is not None and (number in self.objects or number % 2 == 0):
            raise Broken('a number that is taken')
        if 'pickle' in sent:
            return self.unpickled(sent)
        make = getattr(self, f'make_{kind}', None)
        if make is None:
            raise Broken
        value = make(sent) if kind in ('far', 'tensor', 'space') else make(v)
        if number is not None:
            self.register(number, value)
            if kind in ('list', 'dict', 'space'):
                self.fill(value, v)
            if self.kind_of(value):
                self.note(number)
        elif kind in ('list', 'dict'):
            self.fill(value, v)
        return value

    def make_far(self, sent):
        if self.decides:
            return Far(self, sent['n'], 'your function') if sent['call'] is True else Opaque()
        if 'has' not in sent:
            return Far(self, sent['n'], sent['v'])
        kind = type(
            'Far', (FarObject,), {f'__{x}__': operator(x) for x in sent['has'] if x != 'call'}
        )
        return kind(self, sent['n'], sent['v'])

    def make_space(self, sent):
        if self.decides:
            raise Broken
        kind = pickle.loads(base64.b64decode(sent['of']))
        return kind.__new__(kind)

    def make_ellipsis(self, _):
        return ...

    def make_scalar(self, v):
        return np.frombuffer(base64.b64decode(v[1]), plain_dtype(v[0]))[0]

    def make_bytes(self, v):
        return base64.b64decode(v)

    def make_complex(self, v):
        return complex(v)

    def make_Fraction(self, v):
        return Fraction(v)

    def make_slice(self, v):
        return slice(*map(self.decode, v))

    def make_tuple(self, v):
        return tuple(map(self.decode, v))

    def make_set(self, v):
        return set(map(self.decode, v))

    def make_iter(self, v):
        return iter([self.decode(x) for x in v])

    def make_list(self, v):
        return []

    def make_dict(self, v):
        return {}

    def make_dtype(self, v):
        found = getattr(torch_or_none(), v)
        return found if isinstance(found, torch_or_none().dtype) else self.broken()

    def make_device(self, v):
        return torch_or_none().device(v)

    def make_op(self, v):
        return getattr(
            torch_or_none().distributed.ReduceOp,
            v if v in ('SUM', 'AVG', 'PRODUCT', 'MAX', 'MIN') else '',
        )

    def make_np(self, v):
        return plain_dtype(v)

    def make_context(self, v):
        return sys.modules['mxnet'].Context(str(v[0]), int(v[1]))

    def make_array(self, v):
        return np.frombuffer(base64.b64decode(v[2]), plain_dtype(v[0])).reshape(v[1]).copy()

    def make_nd(self, v):
        nd = sys.modules['mxnet'].nd
        data = self.make_array(v[1])
        value = nd.array(data, ctx=self.make_context(v[0]), dtype=data.dtype)
        if v[2]:
            value.attach_grad()
            value.grad[:] = nd.array(self.make_array(v[2]), dtype=data.dtype)
        return value

    def data_of(self, v):
        torch = torch_or_none()
        raw = np.frombuffer(base64.b64decode(v['data']), np.uint8).copy()
        kind = self.make_dtype(v['type'])
        data = torch.from_numpy(raw).view(kind) if raw.size else torch.empty(0, dtype=kind)
        return data.reshape(v['shape'])

    def make_tensor(self, sent):
        v, torch = sent['v'], torch_or_none()
        value = self.data_of(v)
        if v.get('param') is True:
            value = torch.nn.Parameter(value, requires_grad=v['needs'])
        elif v['leaf'] is False and v['of']:
            leaves = [self.objects[n] for n in v['of']]
            if not all(isinstance(x, torch.Tensor) for x in leaves):
                raise Broken
            return back_through(self, sent['n'], v['of'], value, leaves)
        elif v['needs'] and value.dtype.is_floating_point:
            value.requires_grad_()
        if v['grad'] is not None:
            value.grad = self.decode(v['grad'])
        return value

    def unpickled(self, sent):
        if self.decides:
            raise Broken  # nothing that a student's process has pickled is opened here
        wire = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, text):
                return wire.decode(json.loads(text))

        value = Unpickler(io.BytesIO(base64.b64decode(sent['pickle']))).load()
        self.register(sent['n'], value)
        for number, part in zip(
            sent.get('parts', ()), [*value.modules()][1:] if 'parts' in sent else ()
        ):
            self.register(number, part)
        if sent['k'] != 'pickle':
            self.note(sent['n'])
        return value

    def fill(self, value, v):
        """Let a list or dict have what was sent."""
        if isinstance(value, list):
            value[:] = [self.decode(x) for x in v]
        elif not isinstance(value, dict):
            for name, x in v:
                setattr(value, self.broken() if name.startswith('_') else name, self.decode(x))
        else:
            new = {self.decode(k): self.decode(x) for k, x in v}
            value.clear()
            value.update(new)

    def apply(self, changes):
        """Let objects here become what the other process says that they are now."""
        for number, v in changes:
            if number not in self.shown:
                raise Broken
            value = self.objects[number]
            kind = self.kind_of(value)
            if kind in ('list', 'dict', 'space'):
                self.fill(value, v)
            elif kind == 'array':
                value[...] = self.make_array(v)
            elif kind == 'nd':
                nd = sys.modules['mxnet'].nd
                value[:] = nd.array(
                    new := self.make_array(v[1]), ctx=value.context, dtype=new.dtype
                )
                if v[2] and value.grad is not None:
                    value.grad[:] = nd.array(
                        self.make_array(v[2]), ctx=value.context, dtype=new.dtype
                    )
            elif kind == 'tensor':
                self.apply_tensor(value, v, json.loads(self.shown[number]))
            elif kind == 'optimizer':
                for group, values in zip(value.param_groups, v):
                    group.update({str(k): x for k, x in values if isinstance(x, float | int)})
            else:
                self.apply_module(value, *v)
            self.note(number)

    def apply_tensor(self, value, v, before):
        data = self.data_of(v)
        with torch_or_none().no_grad():
            if data.shape != value.shape or data.dtype != value.dtype or v['moved']:
                value.data = data
            elif v['data'] != before['data']:
                value.data.copy_(data)
            if value.is_leaf and value.dtype.is_floating_point:
                value.requires_grad_(v['needs'] is True)
                value.grad = self.decode(v['grad'])

    def apply_module(self, value, training, tensors, plain):
        for part, mode in zip(value.modules(), training):
            part.training = mode is True
        known = {**dict(value.named_parameters()), **dict(value.named_buffers())}
        for name, sent in tensors:
            tensor = self.decode(sent)
            if known[name] is not tensor:
                path, _, last = name.rpartition('.')
                owner = value.get_submodule(path)
                (owner._parameters if last in owner._parameters else owner._buffers)[last] = tensor
        for name, x in plain.items():
            if name in vars(value) and json_only(x) and name != 'training':
                setattr(value, name, x)

    @staticmethod
    def broken():
        raise Broken

    # Calls.

    def ask(self, do, of, args, options):
        """Let the other process do something; give what comes of it, or raise what it raised."""
        message = {'do': do, 'of': of, 'args': [self.encode(x) for x in args],
                   'options': {k: self.encode(x) for k, x in options.items()}}  # fmt: skip
        if self.decides:
            message['within'] = self.pickled(tuple(Away.within)) if Away.within else None
        self.depth += 1
        reply = self.exchange(message | {'changes': self.changes()})
        while 'do' in reply:
            reply = self.exchange(self.done(reply))
        self.depth -= 1
        return self.guarded(self.result_of, reply)

    def guarded(self, function, *args):
        """Call what reads a message: from a student's process it can be anything."""
        try:
            return function(*args)
        except Raised as raised:
            raise raised.args[0] from None
        except Broken:
            raise
        except Exception as error:
            raise (Broken(repr(error)) if self.decides else error) from None

    def result_of(self, reply):
        self.final = self.decides and not self.depth
        found = self.error_of(reply['raise']) if 'raise' in reply else self.decode(reply['give'])
        self.final = False
        self.apply(reply['changes'])
        if 'raise' in reply:
            raise Raised(found)
        return found

    def error_of(self, sent):
        if isinstance(sent, dict):
            if 'pickle' in sent:
                kind, text = self.unpickled(sent)
                error = kind(text)
                self.register(sent['n'], error)
                return error
            return self.objects[sent['r']]
        name, exact, text = sent
        if name == 'Hint':
            return Hint(str(text)[:400])
        kind = getattr(builtins, str(name), None)
        if not (isinstance(kind, type) and issubclass(kind, Exception)):
            kind, exact = Exception, False
        return (kind if exact is True else type('an error', (kind,), {}))('')

    def done(self, message):
        """Do what the other process asks for; give the reply."""
        try:
            found = self.do(message)
            self.final = not self.decides and not self.depth
            given = self.encode(found)
            self.final = False
            return {'give': given, 'changes': self.changes()}
        except Broken:
            raise
        except BaseException as error:
            self.final = False
            return {'raise': self.said_of(error), 'changes': self.changes()}

    def said_of(self, error):
        if id(error) in self.numbers:
            return {'r': self.numbers[id(error)]}
        if self.decides:
            number = self.number_of(error)
            return self.pickled((type(error), str(error)), 'pickle', {'k': 'pickle', 'n': number})
        if isinstance(error, Hint):
            return ['Hint', True, str(error)[:400]]
        base = next(
            (k for k in type(error).__mro__ if getattr(builtins, k.__name__, 0) is k), Exception
        )
        return [base.__name__, base is type(error), '']

    def do(self, message):
        def read():
            of, do = message['of'], message['do']
            args = [self.decode(x) for x in message['args']]
            options = {k: self.decode(x) for k, x in message['options'].items()}
            self.apply(message['changes'])
            return (self.objects[of] if of is not None else None), do, args, options

        target, do, args, options = self.guarded(read)
        if not self.decides:
            return run_within(self, message, target, do, args, options)
        if not is_ours(target):
            raise Broken
        if do == 'get':
            if args[0].startswith('_'):
                raise Broken
            found = getattr(target, args[0])
            return copy.deepcopy(found) if self.kind_of(found) else found  # theirs to look at
        if do != 'call' and do[2:-2] not in OPERATORS:
            raise Broken
        return target(*args, **options) if do == 'call' else getattr(target, do)(*args)


class Raised(Exception):
    """What the other process has raised, on its way."""


class Opaque:
    """Something of a student's that is no data: it can be handed back to their functions."""


def run_within(wire, message, target, do, args, options):
    """Do what a check asks for, under what it says must hold there (``checking.around``)."""
    if do == 'grad':
        torch = torch_or_none()
        leaves = [wire.objects[n] for n in args[1]]
        return list(
            torch.autograd.grad(target, leaves, args[0], retain_graph=True, allow_unused=True)
        )
    with contextlib.ExitStack() as stack:
        for manager, given in wire.unpickled(message['within']) if message['within'] else ():
            stack.enter_context(manager(*given))
        if do in ('answers', 'replaced'):
            return getattr(wire, do)()
        if do == 'run':
            target, *args = args
        return target(*args, **options)


def json_only(value):
    return type(value) in (*PLAIN, float) or (type(value) is list and all(map(json_only, value)))


def plain_dtype(text):
    kind = np.dtype(str(text))
    if kind.kind not in 'biufc?SU':
        raise Broken
    return kind


def back_through(wire, number, of, value, leaves):
    """Give a tensor whose gradient is asked for where it was computed."""
    torch = torch_or_none()

    class Back(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *leaves):
            return value.clone()

        @staticmethod
        def backward(ctx, grad):
            found = wire.ask(do='grad', of=number, args=(grad, list(of)), options={})
            return tuple(found)

    return Back.apply(*leaves)
