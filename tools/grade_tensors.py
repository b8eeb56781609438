"""Kinds of values for MXNet and PyTorch; ``grade_values.py`` defines what a kind is."""

import sys
import types

import numpy as np
from grade_values import Array, Broken, Dict, Kind, List, Space, bytes_of, json_only, text_of


def torch_or_none():
    return sys.modules.get('torch')


def named(value):
    """Encode a dtype or a device as JSON, by name; return None for anything else."""
    torch, mx = torch_or_none(), sys.modules.get('mxnet')
    if torch and isinstance(value, torch.dtype | torch.device):
        return {'k': type(value).__name__, 'v': str(value).removeprefix('torch.')}
    if torch and type(value).__name__ == 'RedOpType':
        return {'k': 'op', 'v': value.name}
    if mx and isinstance(value, mx.Context):
        return {'k': 'context', 'v': [value.device_type, value.device_id]}
    return None


def dtype(name):
    torch = torch_or_none()
    if not isinstance(found := getattr(torch, name), torch.dtype):
        raise Broken
    return found


def context(v):
    return sys.modules['mxnet'].Context(str(v[0]), int(v[1]))


OPS = 'SUM', 'AVG', 'PRODUCT', 'MAX', 'MIN'
NAMED = {
    'dtype': lambda v, decode: dtype(v),
    'device': lambda v, decode: torch_or_none().device(v),
    'op': lambda v, decode: getattr(torch_or_none().distributed.ReduceOp, v if v in OPS else ''),
    'context': lambda v, decode: context(v),
}


class Tensor(Kind):
    name = 'tensor'

    def content(wire, value):
        torch, place = torch_or_none(), value.data_ptr()
        data = value.detach().clone(memory_format=torch.contiguous_format)
        raw = data.view(-1).view(torch.uint8) if data.numel() else data
        return {
            'type': str(value.dtype)[6:], 'shape': list(value.shape),
            'needs': value.requires_grad, 'data': text_of(raw.cpu().numpy().tobytes()),
            'moved': place != wire.places.get(wire.numbers.get(id(value)), place),
            'grad': wire.encode(value.grad) if value.is_leaf else None,
        }  # fmt: skip

    def more(wire, value):
        """Return which of the checks' tensors a student's ``value`` depends on, by autograd."""
        torch = torch_or_none()
        if wire.decides or value.grad_fn is None or wire.depth:
            param = wire.decides and isinstance(value, torch.nn.Parameter)
            return {'param': param, 'of': []}
        known = {n: x for n, x in wire.objects.items() if n % 2 == 0}
        known = {n: x for n, x in known.items() if isinstance(x, torch.Tensor)}
        leaves = {n: x for n, x in known.items() if x.is_leaf and x.requires_grad}
        try:
            grads = torch.autograd.grad(
                value.sum(), [*leaves.values()], retain_graph=True, allow_unused=True
            )
        except RuntimeError:
            grads = ()
        return {'param': False, 'of': [n for n, g in zip(leaves, grads) if g is not None]}

    def data(v):
        raw = np.frombuffer(bytes_of(v['data']), np.uint8).copy()
        torch, kind = torch_or_none(), dtype(v['type'])
        data = torch.from_numpy(raw).view(kind) if raw.size else torch.empty(0, dtype=kind)
        return data.reshape(v['shape'])

    def make(wire, sent):
        v, torch = sent['v'], torch_or_none()
        value = Tensor.data(v)
        if sent['param'] is True:
            value = torch.nn.Parameter(value, requires_grad=v['needs'])
        elif sent['of']:
            leaves = [wire.objects[n] for n in sent['of']]
            if not all(isinstance(x, torch.Tensor) for x in leaves):
                raise Broken
            return back_through(wire, sent['n'], sent['of'], value, leaves)
        elif v['needs'] and value.dtype.is_floating_point:
            value.requires_grad_()
        if v['grad'] is not None:
            value.grad = wire.decode(v['grad'])
        return value

    def apply(wire, value, v, before):
        data = Tensor.data(v)
        with torch_or_none().no_grad():
            if data.shape != value.shape or data.dtype != value.dtype or v['moved']:
                value.data = data
            elif v['data'] != before['data']:
                value.data.copy_(data)
            if value.is_leaf and value.dtype.is_floating_point:
                value.requires_grad_(v['needs'] is True)
                value.grad = wire.decode(v['grad'])


def back_through(wire, number, of, value, leaves):
    """Return a tensor whose backward pass runs in the process that computed it."""
    torch = torch_or_none()

    class Back(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *leaves):
            return value.clone()

        @staticmethod
        def backward(ctx, grad):
            return tuple(wire.ask(do='grad', of=number, args=(grad, list(of)), options={}))

    return Back.apply(*leaves)


class Module(Kind):
    name, stays, pickled = 'module', True, True

    def content(wire, value):
        tensors = [*value.named_parameters(), *value.named_buffers()]
        plain = {k: v for k, v in vars(value).items() if k[0] != '_' and json_only(v)}
        training = [part.training for part in value.modules()]
        return [training, [[name, wire.encode(tensor)] for name, tensor in tensors], plain]

    def apply(wire, value, v, before):
        training, tensors, plain = v
        for part, mode in zip(value.modules(), training):
            part.training = mode is True
        known = {**dict(value.named_parameters()), **dict(value.named_buffers())}
        for name, sent in tensors:
            tensor = wire.decode(sent)
            if known[name] is not tensor:
                path, _, last = name.rpartition('.')
                owner = value.get_submodule(path)
                (owner._parameters if last in owner._parameters else owner._buffers)[last] = tensor
        for name, x in plain.items():
            if name in vars(value) and json_only(x) and name != 'training':
                setattr(value, name, x)


class Optimizer(Kind):
    name, stays, pickled = 'optimizer', True, True

    def content(wire, value):
        groups = value.param_groups
        return [[[k, v] for k, v in g.items() if isinstance(v, float | int)] for g in groups]

    def apply(wire, value, v, before):
        for group, values in zip(value.param_groups, v):
            group.update({str(k): x for k, x in values if isinstance(x, float | int)})


class NDArray(Kind):
    name = 'nd'

    def content(wire, value):
        arrays = [value, value.grad]
        arrays = [None if x is None else Array.content(wire, x.asnumpy()) for x in arrays]
        return [[value.context.device_type, value.context.device_id], *arrays]

    def nd(v, context):
        data = Array.array(v)
        return sys.modules['mxnet'].nd.array(data, ctx=context, dtype=data.dtype)

    def make(wire, sent):
        place, data, grad = sent['v']
        value = NDArray.nd(data, context(place))
        if grad:
            value.attach_grad()
            value.grad[:] = NDArray.nd(grad, value.context)
        return value

    def apply(wire, value, v, before):
        _, data, grad = v
        value[:] = NDArray.nd(data, value.context)
        if grad and value.grad is not None:
            value.grad[:] = NDArray.nd(grad, value.context)


KINDS = Tensor, Module, Optimizer, NDArray, Array, List, Dict, Space


def kind_of(value):
    """Return the kind of a value, or None if it has none."""
    torch, mx = torch_or_none(), sys.modules.get('mxnet')
    of = {list: List, dict: Dict, types.SimpleNamespace: Space}
    if mx:
        of[mx.nd.NDArray] = NDArray
    if torch:
        of |= {torch.Tensor: Tensor, torch.nn.Module: Module, torch.optim.Optimizer: Optimizer}
    if isinstance(value, np.ndarray):
        return Array if value.dtype != object else None
    by_value = Space if getattr(type(value), 'BY_VALUE', False) else None
    return next((kind for base, kind in of.items() if isinstance(value, base)), by_value)
