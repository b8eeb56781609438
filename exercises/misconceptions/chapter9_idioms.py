"""Right answers to the exercises of chapter 9 that go another way than ours: no hint for them."""

import numpy as np
import torch
from torch import nn
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


def told_all_counts(logits, labels, dist):
    counts = [None] * dist.get_world_size()
    dist.all_gather_object(counts, int((labels >= 0).sum()))
    mean = sum(counts) / len(counts)  # tokens for each rank
    return (
        nn.CrossEntropyLoss(reduction='sum')(logits.view(-1, logits.shape[-1]), labels.view(-1))
        / mean
    )


def token_by_token(logits, labels, dist):
    total, n = logits.sum() * 0, torch.zeros(1)
    for sequence, those in zip(logits, labels):
        for scores, label in zip(sequence, those):
            if label != -100:
                total = total - scores[label] + scores.logsumexp(0)
                n += 1
    dist.all_reduce(n)
    return total / n.item() * dist.get_world_size()


def padded_then_cut(sequences):
    whole = [torch.tensor(s) for s in sequences]
    inputs = pad_sequence(whole, batch_first=True)[:, :-1]
    targets = pad_sequence(whole, batch_first=True, padding_value=-100)[:, 1:]
    positions = torch.arange(inputs.shape[1])
    return inputs, targets, positions[:, None] >= positions


def lists_of_numbers(sequences):
    t = max(len(s) for s in sequences) - 1
    inputs = [s[:-1] + [0] * (t + 1 - len(s)) for s in sequences]
    targets = [s[1:] + [-100] * (t + 1 - len(s)) for s in sequences]
    return inputs, targets, [[j <= i for j in range(t)] for i in range(t)]


def in_numpy(sequences):
    n, t = len(sequences), max(map(len, sequences)) - 1
    whole = np.zeros((n, t + 1), dtype=int)
    there = np.arange(t + 1) < np.array([[len(s)] for s in sequences])
    whole[there] = np.concatenate(sequences)
    return whole[:, :-1], np.where(there[:, 1:], whole[:, 1:], -100), np.tri(t)


def position_by_position(sequences):
    t = max(map(len, sequences)) - 1
    inputs, targets = torch.zeros(2, len(sequences), t, dtype=torch.int64)
    targets.fill_(-100)
    for i, tokens in enumerate(sequences):
        for j, (here, following) in enumerate(zip(tokens, tokens[1:])):
            inputs[i, j], targets[i, j] = here, following
    return inputs, targets, ~torch.triu(torch.ones(t, t), diagonal=1).bool()


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


def by_masks(x, choices, weights, k, exchange):
    masks = [choices == e for e in range(k)]
    parts = [x[mask] for mask in masks]
    results = exchange(torch.cat(parts), [len(part) for part in parts]).split(list(map(len, parts)))
    out = torch.zeros_like(x)
    for mask, result in zip(masks, results):
        out = out.masked_scatter(mask[:, None], result)
    return out * weights[:, None]


def by_a_permutation(x, choices, weights, k, exchange):
    where = sorted(range(len(x)), key=choices.tolist().__getitem__)
    P = F.one_hot(torch.tensor(where), len(x)).to(x.dtype)
    results = exchange(P @ x, F.one_hot(choices, k).sum(0)) * (P @ weights)[:, None]
    return P.T @ results


def index_add(x, choices, weights, k, exchange):
    chosen, order = choices.sort()
    counts = [int((chosen == e).sum()) for e in range(k)]
    results = exchange(x.index_select(0, order), counts) * weights[order].view(-1, 1)
    return torch.zeros_like(x).index_add(0, order, results)


RIGHT = [
    ('9.1', 'with a mask, in the form (n, words, t)', with_a_mask),
    ('9.1', 'its mean, weighted by its share', its_mean_weighted),
    ('9.1', 'divided by the tokens for each rank', told_all_counts),
    ('9.1', 'token by token', token_by_token),
    ('9.2', 'padded, then cut', padded_then_cut),
    ('9.2', 'lists of numbers', lists_of_numbers),
    ('9.2', 'NumPy', in_numpy),
    ('9.2', 'position by position', position_by_position),
    *CONTEXT,
    ('9.6', 'written back by the order', written_back),
    ('9.6', 'lists of positions', lists_of_positions),
    ('9.6', 'by masks', by_masks),
    ('9.6', 'by a permutation', by_a_permutation),
    ('9.6', 'index_add', index_add),
]
