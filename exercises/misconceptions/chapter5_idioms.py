"""Right answers to the exercises of chapter 5 that go another way than ours: no hint for them."""

import functools
import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from .chapter5_steps_idioms import RIGHT as STEPS
from .chapter5_timing import RIGHT as TIMING


def whoever_comes(x, dist):
    if dist.get_rank():
        dist.send(tensor=x, dst=0)
        dist.recv(tensor=x, src=0)
        return
    others = range(1, dist.get_world_size())
    received = torch.zeros_like(x)
    for _ in others:
        dist.recv(received)
        x.add_(received)
    for other in others:
        dist.send(x, dst=other)


def along_a_line(x, dist):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    if rank:
        before = torch.empty_like(x)
        dist.recv(before, rank - 1)
        x += before
    if rank < last:
        dist.send(x, rank + 1)
        dist.recv(x, rank + 1)
    if rank:
        dist.send(x, rank - 1)


def everyone_to_everyone(x, dist):
    rank = dist.get_rank()
    others = [r for r in range(dist.get_world_size()) if r != rank]
    received = [torch.empty_like(x) for _ in others]
    works = [dist.irecv(y, other) for y, other in zip(received, others)]
    works += [dist.isend(x, other) for other in others]
    for work in works:
        work.wait()
    x.copy_(torch.stack([x, *received]).sum(0))


def whole_arrays_around(x, dist):
    rank, size = dist.get_rank(), dist.get_world_size()
    mine, total = x.clone(), x.clone()
    for _ in range(size - 1):
        received = torch.empty_like(x)
        if rank == 0:  # who receives first lets all others send
            dist.recv(received, size - 1)
            dist.send(mine, 1)
        else:
            dist.send(mine, (rank + 1) % size)
            dist.recv(received, rank - 1)
        total += received
        mine = received
    x[:] = total


def slice_by_slice(x, dist):
    rank, size = dist.get_rank(), dist.get_world_size()
    for owner, part in enumerate(x.tensor_split(size)):
        if rank != owner:
            dist.send(part, owner)
            dist.recv(part, owner)
            continue
        others = [r for r in range(size) if r != owner]
        for other in others:
            received = torch.empty_like(part)
            dist.recv(received, other)
            part += received
        for other in others:
            dist.send(part, other)


def exchange(messages, dist):
    """Send and receive all of these at once."""
    ops = [dist.P2POp(op, part, peer) for op, part, peer in messages if part.numel()]
    for work in dist.batch_isend_irecv(ops) if ops else ():
        work.wait()


def in_batches(x, dist):
    rank, k, n = dist.get_rank(), dist.get_world_size(), len(x)
    parts = [x[i * n // k : (i + 1) * n // k] for i in range(k)]
    others = [r for r in range(k) if r != rank]
    received = {r: torch.empty_like(parts[rank]) for r in others}
    sends = [(dist.isend, parts[r], r) for r in others]
    exchange(sends + [(dist.irecv, received[r], r) for r in others], dist)
    for y in received.values():
        parts[rank] += y
    sends = [(dist.isend, parts[rank], r) for r in others]
    exchange(sends + [(dist.irecv, parts[r], r) for r in others], dist)


def padded_ring(x, dist):
    """A ring of equal slices: zeros make the vector longer."""
    rank, k = dist.get_rank(), dist.get_world_size()
    table = torch.nn.functional.pad(x, (0, -len(x) % k)).view(k, -1)
    for step in range(2 * k - 2):
        work = dist.isend(table[(rank - step) % k], (rank + 1) % k)
        received = torch.empty_like(table[0])
        dist.recv(received, (rank - 1) % k)
        work.wait()
        row = table[(rank - step - 1) % k]
        row.copy_(row + received if step < k - 1 else received)
    x.copy_(table.flatten()[: len(x)])


def by_a_loop(way, k, nbytes):
    if way == 'ring':
        return [sum(2 for _ in range(k - 1)), sum(2 * nbytes / k for _ in range(k - 1))]
    steps, travelled, part, p = 0, 0, nbytes, 1
    while 2 * p <= k:
        p, part = 2 * p, part / 2
        steps, travelled = steps + 2, travelled + 2 * part
    return [steps + 2, travelled + nbytes] if p < k else [steps, travelled]


def in_numpy(way, k, nbytes):
    p = 2 ** np.floor(np.log2(k))
    if way == 'ring':
        return np.array([2 * (k - 1), 2 * (1 - 1 / k) * nbytes])
    return np.array([2 * np.ceil(np.log2(k)), 2 * (1 - 1 / p) * nbytes + (p != k) * nbytes])


def by_recursion(way, k, nbytes):
    if way == 'ring':
        return 2 * k - 2, nbytes / k * (2 * k - 2)
    if k & (k - 1):
        steps, travels = by_recursion(way, 1 << k.bit_length() - 1, nbytes)
        return steps + 2, travels + nbytes
    if k == 1:
        return 0, 0
    steps, travels = by_recursion(way, k // 2, nbytes / 2)
    return steps + 2, travels + nbytes / 2 * 2


def in_one_message(micro_batches, net, dist):
    net.zero_grad()
    for X, y in micro_batches:
        cross_entropy(net(X), y, reduction='sum').backward()
    n = sum(len(y) for _, y in micro_batches)
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()]
    flat = torch.cat([*(g.flatten() for g in grads), torch.tensor([n])])
    dist.all_reduce(flat)
    means = (flat[:-1] / flat[-1]).split([g.numel() for g in grads])
    for p, mean in zip(net.parameters(), means):
        p.grad = mean.view_as(p)


def told_beforehand(micro_batches, net, dist):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, sum(len(X) for X, _ in micro_batches))
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    for X, y in micro_batches:
        (cross_entropy(net(X), y) * len(X) / sum(counts)).backward()
    for p in net.parameters():
        dist.all_reduce(p.grad)


def by_autograd(micro_batches, net, dist):
    params = list(net.parameters())
    total, n = [torch.zeros_like(p) for p in params], torch.zeros(1)
    for X, y in micro_batches:
        losses = cross_entropy(net(X), y, reduction='none')
        n += losses.numel()
        total = [t + g for t, g in zip(total, torch.autograd.grad(losses.sum(), params))]
    dist.all_reduce(n)
    for p, t in zip(params, total):
        dist.all_reduce(t)
        p.grad = t / n


def put_in(buckets, gradient):
    """Give the buckets with one gradient more, number and bytes; ``limit`` comes first."""
    limit, *done = buckets
    number, nbytes = gradient
    if done and sum(size for _, size in done[-1]) + nbytes <= limit:
        return [limit, *done[:-1], (*done[-1], (number, nbytes))]
    return [limit, *done, ((number, nbytes),)]


def folded(grads, limit):
    sizes = [(i, g.numel() * g.element_size()) for i, g in enumerate(grads)]
    _, *buckets = functools.reduce(put_in, reversed(sizes), [limit])
    return tuple(tuple(i for i, _ in bucket) for bucket in buckets)


def one_by_one(grads, limit):
    bucket, held = [], 0
    for i in np.arange(len(grads))[::-1]:
        size = math.prod(grads[i].shape) * grads[i].itemsize
        if bucket and held + size > limit:
            yield bucket
            bucket, held = [], 0
        bucket.append(i)
        held += size
    yield bucket


def ascending(grads, limit):
    buckets = [[len(grads) - 1]]
    for i in range(len(grads) - 2, -1, -1):
        together = [i, *buckets[-1]]
        if sum(grads[j].nbytes for j in together) <= limit:
            buckets[-1] = together
        else:
            buckets.append([i])
    return buckets


RIGHT = [
    *STEPS,
    ('5.10', 'whoever comes', whoever_comes),
    ('5.10', 'along a line and back', along_a_line),
    ('5.10', 'everyone to everyone', everyone_to_everyone),
    ('5.10', 'whole arrays around a ring', whole_arrays_around),
    ('5.11', 'slice by slice', slice_by_slice),
    ('5.11', 'in batches', in_batches),
    ('5.11', 'a ring of padded slices', padded_ring),
    ('5.12', 'a loop', by_a_loop),
    ('5.12', 'NumPy', in_numpy),
    ('5.12', 'recursive', by_recursion),
    ('5.13', 'one message, the count in it', in_one_message),
    ('5.13', 'the number of examples told beforehand', told_beforehand),
    ('5.13', 'gradients of autograd.grad', by_autograd),
    ('5.14', 'folded', folded),
    ('5.14', 'given one by one', one_by_one),
    ('5.14', 'ascending within a bucket', ascending),
    *TIMING,
]
