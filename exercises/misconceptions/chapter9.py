"""What students get wrong in the exercises of chapter 9, and a part of the hint that each gets."""

import torch
from torch.nn import functional as F

from mgpu_helpers.pytorch import shifted

from .chapter9_context import WRONG as CONTEXT
from .chapter9_experts import WRONG as EXPERTS
from .chapter9_idioms import RIGHT as RIGHT


def token_loss(of='tokens', ranks=1, over='all', reduction='sum', pad='ignored', sums=False):
    """A sum of losses, divided by something else, or with something else in it."""

    def loss(logits, labels, dist):
        logits, labels = logits.flatten(0, 1), labels.flatten()
        labels = labels.clamp(min=0) if pad == 'word 0' else labels
        l = F.cross_entropy(logits, labels, reduction=reduction)
        if of == 'nothing':
            return l
        n = {'tokens': (labels >= 0).sum(), 'positions': torch.tensor(len(labels))}[of].clone()
        if over == 'all':
            dist.all_reduce(n)
        if sums:
            dist.all_reduce(l)
        return l * dist.get_world_size() ** ranks / n.clamp(min=1)

    return loss


def per_sequence(logits, labels, dist):
    n = torch.tensor(len(labels))
    dist.all_reduce(n)
    l = F.cross_entropy(logits.transpose(1, 2), labels, reduction='sum')
    return l * dist.get_world_size() / n


def as_a_number(logits, labels, dist):
    return token_loss()(logits, labels, dist).item()


def nothing_to_learn(logits, labels, dist):
    n = (labels >= 0).sum()
    everyone = n.clone()
    dist.all_reduce(everyone)
    if n == 0:
        return torch.tensor(0.0)
    return token_loss('nothing')(logits, labels, dist) * dist.get_world_size() / everyone


def leaves_early(logits, labels, dist):
    if not (labels >= 0).any():
        return logits.sum() * 0
    return token_loss(ranks=1)(logits, labels, dist)


def by_the_courses_function(sequences):
    inputs, targets = shifted(sequences)
    targets[targets == 0] = -100
    return inputs, targets, torch.ones(inputs.shape[1], inputs.shape[1]).tril()


def prepare(after=1, keep=0, pad=-100, mask=lambda ones: ones.tril(), wrap=False, empty=0):
    """Targets so many positions later, padded with something, and some mask."""

    def examples(sequences):
        t = max(map(len, sequences)) - 1 + keep
        inputs, targets = [], []
        for tokens in sequences:
            last = len(tokens) - 1
            follows = tokens[after : after + last] if after >= 0 else [0, *tokens][:last]
            follows += [tokens[0]] * (wrap and last < t)
            inputs.append((tokens[:last] + [empty] * t)[:t])
            targets.append((follows + [pad] * t)[:t])
        ones = torch.ones(t, t, dtype=torch.bool)
        return torch.tensor(inputs), torch.tensor(targets), mask(ones)

    return examples


def additive(ones):
    return torch.zeros(ones.shape).masked_fill(ones.triu(1), -torch.inf)


def for_each_sequence(ones):
    return ones.tril().expand(2, *ones.shape)


WRONG = [
    ('9.1', 'the mean of each rank', token_loss('nothing', reduction='mean'), 'a mean of means'),
    ('9.1', 'its own tokens', token_loss(ranks=0, over='own'), 'a mean of means'),
    ('9.1', 'its own tokens, times ranks', token_loss(over='own'), 'how many are there in all'),
    ('9.1', 'padding counted', token_loss('positions'), 'padding was counted'),
    (
        '9.1',
        'padding counted by each',
        token_loss('positions', ranks=0, over='own'),
        'on each rank by itself',
    ),
    ('9.1', 'padding learned', token_loss(pad='word 0'), 'padding has a gradient'),
    ('9.1', 'divided by the ranks twice', token_loss(ranks=0), 'by the ranks twice'),
    ('9.1', 'the loss of all, for a report', token_loss(ranks=0, sums=True), 'ranks twice'),
    ('9.1', 'the sum', token_loss('nothing'), 'what of the tokens'),
    ('9.1', 'by sequences', per_sequence, 'by sequences'),
    ('9.1', 'a number', as_a_number, 'cannot call backward()'),
    ('9.1', 'a rank without tokens has 0', nothing_to_learn, 'cannot call backward()'),
    ('9.1', 'a rank without tokens leaves', leaves_early, 'rank 1 never calls it'),
    ('9.1', 'multiplied twice', token_loss(ranks=2), '3 times that of the mean'),
    ('9.2', 'not shifted', prepare(after=0), 'nothing to learn'),
    ('9.2', 'shifted the other way', prepare(after=-1), 'these are the tokens before'),
    ('9.2', 'shifted by two', prepare(after=2), 'which token comes after 7'),
    ('9.2', 'the first one at the end', prepare(wrap=True), 'nothing comes after'),
    ('9.2', 'targets padded with 0', prepare(pad=0), 'from there on no target counts'),
    ('9.2', 'inputs padded with -100', prepare(empty=-100), 'no row for -100'),
    ('9.2', 'the last token is an input', prepare(keep=1), 'there is nothing to predict'),
    ('9.2', 'the mask sees one too many', prepare(mask=lambda x: x.tril(1)), 'it is to predict'),
    ('9.2', 'the mask sees one too few', prepare(mask=lambda x: x.tril(-1)), 'look at itself'),
    ('9.2', 'the mask turned over', prepare(mask=lambda x: x.triu()), 'rows are queries'),
    ('9.2', 'the mask forbids', prepare(mask=lambda x: x.triu(1)), 'where it may not look'),
    ('9.2', 'the mask is to be added', prepare(mask=additive), 'where it may not look'),
    ('9.2', 'no mask', prepare(mask=lambda x: x), 'all look at all'),
    ('9.2', 'a mask for each', prepare(mask=for_each_sequence), 'for all alike'),
    ('9.2', "the course's function", by_the_courses_function, "is the course's answer"),
    *CONTEXT,
    *EXPERTS,
]
