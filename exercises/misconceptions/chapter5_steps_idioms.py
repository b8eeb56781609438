"""Right answers to exercises 5.1 to 5.8, written differently from ours; each must pass."""

import math
import random

import numpy as np
import torch
from torch.nn.functional import cross_entropy


def into_each_by_numpy(tensors):
    mean = np.mean([x.numpy() for x in tensors], axis=0)
    for x in tensors:
        x[:] = torch.from_numpy(mean)


def into_each_by_stack(tensors):
    mean = torch.stack(list(tensors)).mean(dim=0)
    for i in range(len(tensors)):
        tensors[i].copy_(mean)


def all_begun(net, dist):
    works = [dist.broadcast(x.data, 0, async_op=True) for x in net.state_dict().values()]
    for work in works:
        work.wait()


def others_give_zeros(net, dist):
    with torch.no_grad():
        for tensor in [*net.parameters(), *net.buffers()]:
            if dist.get_rank() != 0:
                tensor.zero_()
            dist.all_reduce(tensor, op=dist.ReduceOp.SUM)


def begun_then_waited(X, y, net, dist):
    rank, size = dist.get_rank(), dist.get_world_size()
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    (cross_entropy(net(X[rank::size]), y[rank::size], reduction='sum') / len(X)).backward()
    works = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
    for work in works:
        work.wait()


def of_autograd(X, y, net, dist):
    size, n = dist.get_world_size(), X.shape[0]
    mine = slice(dist.get_rank() * n // size, (dist.get_rank() + 1) * n // size)
    losses = cross_entropy(net(X[mine]), y[mine], reduction='none')
    params = list(net.parameters())
    for p, g in zip(params, torch.autograd.grad(losses.sum(), params)):
        dist.all_reduce(tensor=g, op=dist.ReduceOp.SUM)
        p.grad = g.div(n)


def one_vector_with_async(grads, dist):
    vector = torch.nn.utils.parameters_to_vector(grads) / dist.get_world_size()
    dist.all_reduce(vector, async_op=True).wait()
    start = 0
    for g in grads:
        g[...] = vector[start : start + g.numel()].reshape(g.shape)
        start += g.numel()


def by_views_of_one_array(grads, dist):
    parts = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(parts, dist.ReduceOp.SUM)
    cut = parts.tensor_split(np.cumsum([g.numel() for g in grads])[:-1].tolist())
    for g, part in zip(grads, cut):
        g.view(-1).copy_(part).div_(dist.get_world_size())


def scaled_down(grad, dist):
    small = (grad / 4).to(torch.float16)
    dist.all_reduce(small, op=dist.ReduceOp.SUM)
    grad[:] = small.float() * 4 / dist.get_world_size()


def half_with_async(grad, dist):
    sent = grad.mul(1 / dist.get_world_size()).type(torch.half)
    work = dist.all_reduce(sent, async_op=True)
    work.wait()
    grad.zero_().add_(sent)


def by_smallest_place(ready):
    n = len(ready)
    begun, next_one = [[] for _ in ready], n - 1
    for t in range(n):
        while next_one >= 0 and next_one in ready[: t + 1]:
            begun[t] += [next_one]
            next_one -= 1
    return begun


def by_latest_arrival(ready):
    place = np.argsort(ready)
    leaves = np.maximum.accumulate(place[::-1])[::-1]
    return [tuple(i for i in range(len(ready))[::-1] if leaves[i] == t) for t in range(len(ready))]


def tried_first(net, state):
    try:
        net.load_state_dict(state)
    except RuntimeError:
        net.load_state_dict({name.split('.', 1)[1]: value for name, value in state.items()})


def all_names_begin_so(net, state):
    if all(name.startswith('module.') for name in state):
        net.load_state_dict({name[len('module.') :]: value for name, value in state.items()})
    else:
        net.load_state_dict(state_dict=state)


def dealt_in_turn(n, size, rank, seed, epoch):
    generator = torch.Generator().manual_seed(1000 * seed + epoch)
    order = torch.randperm(n, generator=generator).tolist()
    each = math.ceil(n / size)
    return [order[(rank + i * size) % n] for i in range(each)]


def in_runs(n, size, rank, seed, epoch):
    order = list(range(n))
    random.Random(f'{seed} {epoch}').shuffle(order)
    each = (n + size - 1) // size
    while len(order) < each * size:
        order += order[: each * size - len(order)]
    return order[rank * each : (rank + 1) * each]


RIGHT = [
    ('5.1', 'NumPy', into_each_by_numpy),
    ('5.1', 'stack, copy_', into_each_by_stack),
    ('5.2', 'all begun, then waited for', all_begun),
    ('5.2', 'the others give zeros', others_give_zeros),
    ('5.3', 'every k-th example, async_op', begun_then_waited),
    ('5.3', 'gradients of autograd.grad', of_autograd),
    ('5.4', 'async_op', one_vector_with_async),
    ('5.4', 'ReduceOp.SUM, divided in the end', by_views_of_one_array),
    ('5.5', 'a quarter of it', scaled_down),
    ('5.5', 'async_op', half_with_async),
    ('5.6', 'while the next one is there', by_smallest_place),
    ('5.6', 'the latest arrival of those before', by_latest_arrival),
    ('5.7', 'tried first', tried_first),
    ('5.7', 'all names begin so', all_names_begin_so),
    ('5.8', "PyTorch's generator, in turn", dealt_in_turn),
    ('5.8', 'runs', in_runs),
]
