"""Right answers to the exercises of chapter 6, written differently from ours; each must pass."""

import math
import random
from contextlib import nullcontext

import numpy as np
import torch
from torch.nn import functional as F

from .chapter6_restarts_idioms import RIGHT as RESTARTS
from .chapter6_scaling import RIGHT as SCALING


def a_generator_of_its_own(seed, epoch, index):
    return random.Random(f'{seed} {epoch} {index}').random() < 0.5


def torch_generator(seed, epoch, index):
    words = np.random.SeedSequence((seed, epoch, index)).generate_state(1)
    generator = torch.Generator().manual_seed(int(words[0]))
    return bool(torch.randint(2, (1,), generator=generator))


def one_message(grads, limit, dist):
    flat = torch.cat([g.reshape(-1) for g in grads]) / dist.get_world_size()
    work = dist.all_reduce(flat, op=dist.ReduceOp.SUM, async_op=True)
    work.wait()
    norm = flat.norm()
    if norm > limit:
        flat.mul_(limit / norm)
    for g, part in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(part.view_as(g))
    return norm


def all_begun_at_once(grads, limit, dist):
    works = [dist.all_reduce(g, async_op=True) for g in grads]
    squares = 0.0
    for g, work in zip(grads, works):
        work.wait()
        g.div_(dist.get_world_size())
        squares += float((g**2).sum())
    norm = math.sqrt(squares)
    factor = limit / norm if norm > limit else 1
    for i in range(len(grads)):
        grads[i][:] = grads[i] * factor
    return norm


def class_by_class(net, X, y, classes, dist):
    rank, size = dist.get_rank(), dist.get_world_size()
    X, y = X.tensor_split(size)[rank], y.tensor_split(size)[rank]
    net.train(False)
    with torch.inference_mode():
        guesses = net(X).argmax(dim=1)
    net.train()
    found = []
    for c in range(classes):
        pair = torch.tensor([((guesses == y) & (y == c)).sum(), (y == c).sum()])
        dist.all_reduce(pair, op=dist.ReduceOp.SUM)
        found.append(pair[0].item() / pair[1].item())
    return found


def example_by_example(net, X, y, classes, dist):
    n, size, rank = len(X), dist.get_world_size(), dist.get_rank()
    counts = torch.zeros(2, classes, dtype=torch.float64)
    net.eval()
    for i in range(n * rank // size, n * (rank + 1) // size):
        with torch.no_grad():
            guess = net(X[i : i + 1]).argmax(1)
        counts[0, y[i]] += float(guess[0] == y[i])
        counts[1, y[i]] += 1
    net.train()
    dist.all_reduce(counts)
    return [float(r / c) for r, c in counts.T]


def counted_pieces(ddp, X, y, n, size, pieces):
    parts = list(zip(torch.tensor_split(X, pieces), torch.tensor_split(y, pieces)))
    for i, (a, b) in enumerate(parts):
        if i < pieces - 1:
            with ddp.no_sync():
                F.cross_entropy(ddp(a), b, reduction='sum').mul(size).div(n).backward()
        else:
            (size * F.cross_entropy(ddp(a), b, reduction='sum') / n).backward()


def weighted_means(ddp, X, y, n, size, pieces):
    for number in range(1, pieces + 1):
        a, b = (t.tensor_split(pieces)[number - 1] for t in (X, y))
        with nullcontext() if number == pieces else ddp.no_sync():
            share = len(a) * size / n
            loss = torch.nn.CrossEntropyLoss()(ddp(a), b) if len(a) else ddp(a).sum()
            (share * loss).backward()


def all_like_mine(found, dist):
    everyone = [0] * dist.get_world_size()
    dist.all_gather_object(object_list=everyone, obj=found)
    return all(other == everyone[0] for other in everyone)


def counted(found, dist):
    values = list(range(dist.get_world_size()))
    dist.all_gather_object(values, found)
    return values.count(values[0]) == len(values)


RIGHT = [
    ('6.1', 'random.Random of a text', a_generator_of_its_own),
    ('6.1', "PyTorch's generator", torch_generator),
    ('6.2', 'one message, async_op', one_message),
    ('6.2', 'all begun at once', all_begun_at_once),
    ('6.3', 'a message for each class', class_by_class),
    ('6.3', 'example by example', example_by_example),
    ('6.4', 'pieces counted', counted_pieces),
    ('6.4', 'weighted means', weighted_means),
    ('6.5', 'all like the first', all_like_mine),
    ('6.5', 'count', counted),
    *RESTARTS,
    *SCALING,
]
