"""Wrong answers to exercises 5.10 to 5.14, each with a part of the hint that it gets."""

import math

import torch
from torch.nn.functional import cross_entropy


def through_rank_0(receive='beside', add='in place', back='sum', own=True):
    """Let rank 0 sum what the others send, and send it back, with one known mistake."""

    def my_all_reduce(x, dist):
        rank, size = dist.get_rank(), dist.get_world_size()
        if rank:
            dist.send(x, 0)
            if back != 'never':
                dist.recv(x, 0)
            return
        total = x if add == 'in place' else x.clone()
        received = total if receive == 'into x' else torch.empty_like(x)
        for source in range(1, size):
            dist.recv(received, source)
            if receive != 'into x':
                total += received
        if back == 'mean':
            total /= size
        for to in range(1, size) if back != 'never' else ():
            dist.send(total, to)

    return my_all_reduce


def around(send='send', add=True, forward='received', until=-1):
    """Send every array around the ring, k - 1 times."""

    def my_all_reduce(x, dist):
        rank, size = dist.get_rank(), dist.get_world_size()
        to, source, mine = (rank + 1) % size, (rank - 1) % size, x.clone()
        for _ in range(size + until):
            received = torch.empty_like(x)
            if send == 'send':
                dist.send(mine, to)
                dist.recv(received, source)
            else:
                work = dist.isend(x if forward == 'sum' else mine, to)
                dist.recv(received, source)
                if send != 'isend, changed':
                    work.wait()
            x += received
            if send == 'isend, changed':
                work.wait()
            mine = received

    return my_all_reduce


def ring(pieces=torch.Tensor.tensor_split, send='isend', gather='store', shift=0):
    def by_slices(x, dist):
        rank, size = dist.get_rank(), dist.get_world_size()
        parts, to, source = pieces(x, size), (rank + 1) % size, (rank - 1) % size
        for step in range(2 * (size - 1) if gather != 'never' else size - 1):
            mine, theirs = parts[(rank - step) % size], parts[(rank - step - 1 - shift) % size]
            received = torch.empty_like(theirs)
            if send == 'isend':
                work = dist.isend(mine, to)
                dist.recv(received, source)
                work.wait()
            else:
                dist.send(mine, to)
                dist.recv(received, source)
            if step < size - 1 or gather == 'add':
                theirs += received
            else:
                theirs.copy_(received)

    return by_slices


def cost(ring=lambda k, n: (2 * (k - 1), 2 * (k - 1) / k * n), halving=None, rest='counted'):
    def ours(k, n):
        p = 2 ** int(math.log2(k))
        extra = k != p and rest == 'counted'
        return 2 * math.log2(p) + 2 * extra, 2 * (p - 1) / p * n + extra * n

    return lambda way, k, n: ring(k, n) if way == 'ring' else (halving or ours)(k, n)


def odd(k):
    """Check whether k is not a power of two."""
    return k.bit_count() > 1


def logs(k):
    return 2 * (k.bit_length() - 1) + 2 * odd(k)


def accumulate(reduction='sum', clear='before', travel='at the end', by='all', empty='zeros'):
    def ours(micro_batches, net, dist):
        n = torch.tensor(float(sum(len(X) for X, _ in micro_batches)))
        own = n.item()
        if empty == 'leaves' and not micro_batches:
            return
        dist.all_reduce(n)
        if clear == 'before':
            net.zero_grad()
        for p in net.parameters():
            if empty == 'zeros' and p.grad is None:
                p.grad = torch.zeros_like(p)
        batches = micro_batches
        if travel == 'as one batch' and batches:
            batches = [tuple(map(torch.cat, zip(*batches)))]
        for X, y in batches:
            if clear == 'each':
                net.zero_grad(set_to_none=False)
            cross_entropy(net(X), y, reduction=reduction).backward()
            if travel == 'each time':
                for p in net.parameters():
                    dist.all_reduce(p.grad)
        for p in net.parameters():
            if travel not in ('each time', 'never'):
                dist.all_reduce(p.grad)
            count, size = len(micro_batches), dist.get_world_size()
            p.grad /= {'all': n, 'own': max(own, 1), 'ranks': size, 'means': count * size, '': 1}[
                by
            ]

    return ours


def fill(nbytes=lambda x: x.nbytes, first=-1, what='fit', limit=lambda limit: limit):
    def my_buckets(grads, bucket_bytes):
        buckets, room = [], 0
        for i in list(range(len(grads)))[::first]:
            size = nbytes(grads[i])
            if what == 'skip large' and size > bucket_bytes:
                continue
            full = room <= 0 if what == 'overfull' else size > room
            if not buckets or full or what == 'one each':
                buckets.append([])
                room = limit(bucket_bytes)
            buckets[-1].append(i)
            room -= size
        return buckets

    return my_buckets


def empty_first(grads, limit):
    buckets, used = [[]], 0
    for i in reversed(range(len(grads))):
        if used + grads[i].nbytes > limit:
            buckets, used = [*buckets, []], 0
        buckets[-1].append(i)
        used += grads[i].nbytes
    return buckets


WRONG = [
    ('5.10', 'all send first', around(), '`send` waits until the other receives'),
    ('5.10', 'received into x', through_rank_0(receive='into x'), '`recv` replaces'),
    ('5.10', 'never sent back', through_rank_0(back='never'), 'send it back'),
    ('5.11', 'all send first', ring(send='send'), '`send` waits until the other receives'),
    ('5.11', 'no all-gather', ring(gather='never'), 'all others need it'),
    ('5.11', 'all through rank 0', through_rank_0(), '2(k - 1) slices per rank'),
    ('5.12', 'a ring: added only', cost(lambda k, n: (k - 1, n)), 'the sum has to come back'),
    ('5.12', 'the surplus ranks forgotten', cost(rest='forgotten'), 'send whole arrays first'),
    (
        '5.12',
        'whole arrays when halving',
        cost(halving=lambda k, n: (logs(k), logs(k) * n)),
        'a half, a quarter',
    ),
    ('5.13', 'a mean of means', accumulate('mean', by='means'), 'with the same weight'),
    ('5.13', 'never cleared', accumulate(clear='never'), 'clear the gradient of the first'),
    ('5.13', 'an empty rank returns early', accumulate(empty='leaves'), 'rank 2 never calls it'),
    ('5.14', 'starting with the first layer', fill(first=1), 'its gradients come last'),
    ('5.14', 'the large one is lost', fill(what='skip large'), 'larger than a bucket'),
    ('5.14', 'filled beyond the limit', fill(what='overfull'), 'larger than the limit'),
    ('5.14', 'an empty one first', empty_first, 'an empty bucket'),
]
