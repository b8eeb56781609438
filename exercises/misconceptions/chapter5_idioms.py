"""Right answers to the exercises of chapter 5, written differently from ours; each must pass."""

import functools
import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from .chapter5_steps_idioms import RIGHT as STEPS
from .chapter5_timing import RIGHT as TIMING


def any_sender(x, dist):
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
    """Send and receive all messages at once."""
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


def put_in(buckets, gradient):
    """Return the buckets with one more gradient, (index, bytes); ``limit`` is the first entry."""
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


RIGHT = [
    *STEPS,
    ('5.10', 'any sender', any_sender),
    ('5.10', 'along a line and back', along_a_line),
    ('5.11', 'slice by slice', slice_by_slice),
    ('5.11', 'in batches', in_batches),
    ('5.12', 'a loop', by_a_loop),
    ('5.12', 'NumPy', in_numpy),
    ('5.13', 'one message, the count in it', in_one_message),
    ('5.13', 'the number of examples told beforehand', told_beforehand),
    ('5.14', 'folded', folded),
    ('5.14', 'given one by one', one_by_one),
    *TIMING,
]
