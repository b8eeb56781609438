"""Right answers to the exercises of chapter 9, written differently from ours; each must pass."""

import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from .chapter9_context_idioms import RIGHT as CONTEXT


def with_a_mask(logits, labels, dist):
    mask = labels.ge(0)
    losses = F.cross_entropy(logits.transpose(1, 2), labels.clamp(min=0), reduction='none')
    n = mask.double().sum()
    dist.all_reduce(n, op=dist.ReduceOp.SUM)
    return (losses * mask).sum().mul(dist.get_world_size()).div(n)


def its_mean_weighted(logits, labels, dist):
    own = torch.tensor([float((labels != -100).sum())])
    n = own.clone()
    dist.all_reduce(n)
    share = own * dist.get_world_size() / n
    kept = labels.flatten() != -100
    if not kept.any():
        return 0 * logits.sum()
    return share * F.cross_entropy(logits.flatten(0, 1)[kept], labels.flatten()[kept])


def padded_then_cut(sequences):
    whole = [torch.tensor(s) for s in sequences]
    inputs = pad_sequence(whole, batch_first=True)[:, :-1]
    targets = pad_sequence(whole, batch_first=True, padding_value=-100)[:, 1:]
    positions = torch.arange(inputs.shape[1])
    return inputs, targets, positions[:, None] >= positions


def lists_of_numbers(sequences):
    t = max(len(s) for s in sequences) - 1
    inputs = [(s + [0] * t)[:t] for s in sequences]
    targets = [s[1:] + [-100] * (t + 1 - len(s)) for s in sequences]
    return inputs, targets, [[j <= i for j in range(t)] for i in range(t)]


def written_back(x, choices, weights, k, exchange):
    order = torch.argsort(choices)
    out = torch.empty_like(x)
    out[order] = exchange(x[order], torch.bincount(choices, minlength=k))
    return weights.unsqueeze(1) * out


def lists_of_positions(x, choices, weights, k, exchange):
    positions = [[i for i, e in enumerate(choices.tolist()) if e == expert] for expert in range(k)]
    flat = sum(positions, [])
    results = exchange(torch.stack([x[i] for i in flat]), [len(mine) for mine in positions])
    there = dict(zip(flat, results))
    return torch.stack([there[i] * weights[i] for i in range(len(x))])


RIGHT = [
    ('9.1', 'with a mask, in the form (n, words, t)', with_a_mask),
    ('9.1', 'its mean, weighted by its share', its_mean_weighted),
    ('9.2', 'padded, then cut', padded_then_cut),
    ('9.2', 'lists of numbers', lists_of_numbers),
    *CONTEXT,
    ('9.6', 'written back by the order', written_back),
    ('9.6', 'lists of positions', lists_of_positions),
]
