"""Wrong answers to the exercises of chapter 9, each with a part of the hint that it gets."""

import torch
from torch.nn import functional as F

from .chapter9_context import WRONG as CONTEXT
from .chapter9_experts import WRONG as EXPERTS
from .chapter9_idioms import RIGHT as RIGHT


def counted(labels, dist):
    n = (labels >= 0).sum()
    dist.all_reduce(n)
    return n


def mean_of_its_own(logits, labels, dist):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def by_its_own_tokens(logits, labels, dist):
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction='sum')
    counted(labels, dist)
    return total * dist.get_world_size() / (labels >= 0).sum().clamp(min=1)


def nothing_to_learn(logits, labels, dist):
    n, kept = counted(labels, dist), labels >= 0
    if not kept.any():
        return torch.tensor(0.0)
    total = F.cross_entropy(logits[kept], labels[kept], reduction='sum')
    return total * dist.get_world_size() / n


def nan_where_nothing_counts(logits, labels, dist):
    own = (labels >= 0).sum()
    share = own * dist.get_world_size() / counted(labels, dist)
    return share * F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def words_in_the_wrong_place(logits, labels, dist):
    total = F.cross_entropy(logits, labels, reduction='sum')
    return total * dist.get_world_size() / counted(labels, dist)


def the_sum_as_a_result(logits, labels, dist):
    n = dist.all_reduce((labels != -100).sum())
    total = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction='sum')
    return total * dist.get_world_size() / n


def prepare(after=1, pad=-100, mask=lambda ones: ones.tril(), also=None, inputs=slice(None)):
    """Return inputs, targets ``after`` positions later, padded with ``pad``, and a mask."""

    def examples(sequences):
        t = max(map(len, sequences)) - 1
        x = torch.tensor([(tokens[inputs] + [0] * t)[:t] for tokens in sequences])
        y = torch.tensor([(tokens[after:][:t] + [pad] * t)[:t] for tokens in sequences])
        y[y == also] = -100
        return x, y, mask(torch.ones(t, t, dtype=torch.bool))

    return examples


WRONG = [
    ('9.1', 'the mean of each rank', mean_of_its_own, 'a mean of means'),
    ('9.1', 'its own tokens, times ranks', by_its_own_tokens, 'how many are there on all ranks'),
    ('9.1', 'a rank without tokens has 0', nothing_to_learn, 'cannot call backward()'),
    ('9.1', 'nan without tokens', nan_where_nothing_counts, 'the loss of rank 1 is nan'),
    ('9.1', 'words in the wrong place', words_in_the_wrong_place, 'flatten the first two axes'),
    ('9.1', 'all_reduce taken to return the sum', the_sum_as_a_result, 'returns nothing'),
    ('9.2', 'not shifted', prepare(after=0), 'nothing to learn'),
    ('9.2', 'targets padded with 0', prepare(pad=0), 'from there on the target is -100'),
    ('9.2', 'every 0 mistaken for padding', prepare(pad=0, also=0), 'which token comes after'),
    ('9.2', 'a mask of numbers', prepare(mask=lambda x: x.tril().float()), 'torch.float32'),
    ('9.2', 'the last token dropped', prepare(inputs=slice(-1)), 'belongs in the inputs, too'),
    ('9.2', 'the mask allows too much', prepare(mask=lambda x: x.tril(1)), 'it must predict'),
    *CONTEXT,
    *EXPERTS,
]
