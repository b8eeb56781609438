"""Wrong answers to the exercises of chapter 5, each with a part of the hint that it gets."""

import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from mgpu_exercises import given

from .chapter5_idioms import RIGHT as RIGHT
from .chapter5_messages import WRONG as MESSAGES
from .chapter5_timing import WRONG as TIMING


def rebound(tensors):
    mean = sum(tensors) / len(tensors)
    for i in range(len(tensors)):
        tensors[i] = mean


def given_memory(tensors):
    mean = sum(tensors) / len(tensors)
    for x in tensors:
        x.set_(mean.clone())


def given_data(tensors):
    mean = sum(tensors) / len(tensors)
    for x in tensors:
        x.data = mean.clone()


def summed(tensors):
    total = sum(tensors)
    for x in tensors:
        x.copy_(total)


def one_after_the_other(tensors):
    for x in tensors:
        x.copy_(sum(tensors) / len(tensors))


def begin(tensors=lambda net: [*net.parameters(), *net.buffers()], how='broadcast', who='all'):
    def begin_alike(net, dist):
        if who == 'rank 0' and dist.get_rank():
            return
        for x in tensors(net):
            if how == 'broadcast':
                dist.broadcast(x.detach(), src=0)
            elif how == 'mean':
                dist.all_reduce(x.detach())
                x.data = x.data / dist.get_world_size()
            else:
                dist.broadcast(x.detach().clone(), src=0)

    return begin_alike


def trained(net):
    return [p for p in net.parameters() if p.requires_grad]


def step(factor=lambda n, size, own: 1, reduction='sum', after=lambda n, size, own: n, **kinds):
    def mean_gradients(X, y, net, dist):
        rank, size, n = dist.get_rank(), dist.get_world_size(), len(X)
        mine = kinds.get('mine', lambda X: X.tensor_split(size)[rank])
        A, b = mine(X), mine(y)
        if kinds.get('only') and not len(A):
            return
        if not kinds.get('dirty'):
            net.zero_grad()
        loss = cross_entropy(net(A), b, reduction=reduction) * factor(n, size, len(A))
        loss.backward()
        if kinds.get('dirty') == 'afterwards':
            net.zero_grad()
        for p in net.parameters():
            if kinds.get('where') == 'copy':
                dist.all_reduce(p.grad.clone())
            elif kinds.get('where') != 'nowhere' and (rank == 0 or kinds.get('where') != 'rank 0'):
                dist.all_reduce(p.grad)
            p.grad /= after(n, size, len(A))

    return mean_gradients


def at_once(back=True, divide=True, equal=False, order=1):
    def mean_at_once(grads, dist):
        flat = torch.cat([g.flatten() for g in grads[::order]])
        dist.all_reduce(flat)
        flat /= dist.get_world_size() if divide else 1
        sizes = [g.numel() for g in grads]
        for i, (g, part) in enumerate(zip(grads, flat.split(sizes))):
            if equal:
                part = flat[: g.numel()]
            if back:
                g.copy_(part.view_as(g))
            else:
                grads[i] = part.view_as(g)

    return mean_at_once


def each_by_itself(grads, dist):
    for g in grads:
        dist.all_reduce(g)
        g /= dist.get_world_size()


def half(first=True, kind=torch.float16, back=True, divide=True):
    def mean_in_half(grad, dist):
        size = dist.get_world_size() if divide else 1
        small = (grad / size if first else grad).to(kind)
        dist.all_reduce(small)
        if not first:
            small /= size
        if back:
            grad.copy_(small)
        else:
            grad = small.float()

    return mean_in_half


def in_whole(grad, dist):
    grad /= dist.get_world_size()
    dist.all_reduce(grad)


def queue(ready, first=-1, all_at_once=True):
    n, there, begun = len(ready), set(), []
    line = list(range(n))[::first]
    for i in ready:
        there.add(i)
        begun.append([])
        while line and line[0] in there:
            begun[-1].append(line.pop(0))
            if not all_at_once:
                break
    return begun


def if_it_is_its_turn(ready):
    begun, wanted = [], len(ready) - 1
    for i in ready:
        begun.append([i] if i == wanted else [])
        wanted -= i == wanted
    return begun


def load(rename, strict=True):
    def load_any(net, state):
        net.load_state_dict({rename(name): v for name, v in state.items()}, strict=strict)

    return load_any


def never_waited(grads, dist):
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, async_op=True)


def cards(seeds=lambda s, e, r: [s, e], rest='filled'):
    def my_shares(n, size, rank, seed, epoch):
        order = np.random.default_rng(seeds(seed, epoch, rank)).permutation(n).tolist()
        missing = -n % size
        if rest == 'dropped':
            order = order[: n // size * size]
        elif rest == 'filled':
            order = (order * size)[: n + missing]
        elif rest == 'once around':
            order += order[:missing]
        elif rest == 'always the first':
            order += order[:1] * missing
        elif rest == 'a round more':
            order = (order * (size + 1))[: n + missing + size]
        elif rest == 'zeros':
            order += [n] * missing
        return order[rank::size]

    return my_shares


ADA = given('5.9', 'Ada')
N, K, B = ADA.values()
EACH, FEWER = -(-N // K), N // K
STEPS, TWICE = math.ceil(EACH / B), EACH * K - N
LAST, LEFT = (EACH - (STEPS - 1) * B) * K, N - FEWER // B * B * K

EACH_NAME = 'in front of each name'


def turned(n, size, rank, seed, epoch):
    return [(i + epoch) % n for i in range(-(-n // size) * size)][rank::size]


WRONG = [
    ('5.1', 'entries rebound', rebound, 'only name new tensors'),
    ('5.1', 'set_', given_memory, 'swap the memory'),
    ('5.1', '.data', given_data, 'swap the memory'),
    ('5.1', 'not divided', summed, 'that is the sum'),
    ('5.1', 'means of means', one_after_the_other, 'compute the mean first'),
    ('5.2', 'no buffers', begin(lambda net: net.parameters()), 'such as running statistics'),
    ('5.2', 'only trained parameters', begin(trained), 'frozen parameters'),
    ('5.2', 'broadcast into copies', begin(how='copies'), 'the tensor itself, or a copy?'),
    ('5.3', 'divided by the ranks', step(after=lambda n, s, k: s), '4.5 times as large'),
    (
        '5.3',
        'a mean of means',
        step(reduction='mean', after=lambda n, s, k: s),
        'each example with the same weight',
    ),
    ('5.3', 'gradients never cleared', step(dirty=True), 'clear the gradient of the first'),
    ('5.4', 'one message per gradient', each_by_itself, 'in 3 messages'),
    ('5.4', 'entries rebound', at_once(back=False), 'in place'),
    ('5.4', 'not divided', at_once(divide=False), 'it is the sum'),
    ('5.5', 'divided afterwards', half(first=False), 'the sum does not fit'),
    ('5.5', 'sent in float32', in_whole, 'in float16 they take 100'),
    ('5.5', 'never written back', half(back=False), 'in place'),
    ('5.6', 'in order of arrival', lambda ready: [[i] for i in ready], 'would be added up'),
    ('5.6', 'one at a time', lambda ready: queue(ready, -1, False), 'start together'),
    ('5.6', 'skipped if not ready in its turn', if_it_is_its_turn, 'starts exactly once'),
    ('5.4', 'never waited for', never_waited, 'never calls `wait()`'),
    ('5.7', 'not strict', load(lambda name: name, strict=False), 'strict=False'),
    ('5.7', 'as it is', load(lambda name: name), EACH_NAME),
    ('5.7', 'replaced everywhere', load(lambda n: n.replace('module.', '')), EACH_NAME),
    ('5.8', 'set_epoch forgotten', cards(lambda s, e, r: [s]), 'set_epoch'),
    ('5.8', 'an order for each rank', cards(lambda s, e, r: [s, e, r]), 'the same order'),
    ('5.8', 'rotated, not shuffled', turned, 'is not shuffled'),
    ('5.8', 'the remainder dropped', cards(rest='dropped'), 'is the remainder used'),
    ('5.9', 'full steps only', (STEPS - 1, TWICE, LAST, LEFT), 'counts, too'),
    ('5.9', 'counts what is left over', (STEPS, N % K, LAST, LEFT), 'to complete the round'),
    (
        '5.9',
        'only the sampler drops',
        (STEPS, TWICE, LAST, N % K),
        'the loader also drops the last',
    ),
    *MESSAGES,
    *TIMING,
]
