"""What students get wrong in the exercises of chapter 9, and a part of the hint that each gets."""

import torch
from torch.nn import functional as F

from mgpu_exercises import given
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


thousands, heads, k = given('9.9', 'Ada').values()
ROW = 1024 * thousands / k * 128 * 2  # bytes of one head of one rank's tokens
RING, ULYSSES = 16 * ROW * (k - 1), (2 * heads + 16) * ROW * (k - 1) / k
tokens, gigabytes, tera = given('9.10', 'Ada').values()
SENT = 4 * tokens * 4096 * 2 * 7 / 8
MS = 64 * SENT / gigabytes / 1e6
RATIO = tokens * 12 * 4096 * 14336 / (tera * 1e12) / (SENT / gigabytes / 1e9)

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
    ('9.9', 'keys only', (RING / 2, ULYSSES, 8), 'values with them'),
    ('9.9', 'k rounds', (RING / (k - 1) * k, ULYSSES, 8), 'the last block need not go on'),
    ('9.9', 'all tokens', (RING * k, ULYSSES, 8), 'the tokens of one rank'),
    ('9.9', 'all heads', (RING / 8 * heads, ULYSSES, 8), 'and they stay'),
    ('9.9', 'one round', (RING / (k - 1), ULYSSES, 8), 'how many are there'),
    ('9.9', 'four bytes', (RING * 2, ULYSSES, 8), 'two bytes a number'),
    ('9.9', 'its own part sent', (RING, ULYSSES / (k - 1) * k, 8), 'a rank keeps the part'),
    (
        '9.9',
        'the result stays',
        (RING, ULYSSES / (2 * heads + 16) * (heads + 16), 8),
        'has to go back',
    ),
    (
        '9.9',
        'four alike',
        (RING, ULYSSES / (2 * heads + 16) * 4 * heads, 8),
        'have 8 heads only',
    ),
    (
        '9.9',
        'keys and values alone',
        (RING, ULYSSES / (2 * heads + 16) * 16, 8),
        'needs its queries, too',
    ),
    ('9.9', 'the whole to each', (RING, ULYSSES * k, 8), 'another part of them'),
    ('9.9', 'as many as queries', (RING, ULYSSES, heads), 'no keys of its own'),
    ('9.9', 'one more than heads', (RING, ULYSSES, 9), 'runs out first'),
    ('9.10', 'one way', (SENT / 2, MS, RATIO), 'two results have to come back'),
    ('9.10', 'all leave', (SENT / 7 * 8, MS, RATIO), 'on this very GPU'),
    ('9.10', 'four bytes', (SENT * 2, MS, RATIO), 'two bytes a number'),
    ('9.10', 'as wide as an expert', (SENT / 4096 * 14336, MS, RATIO), 'as wide as the network'),
    ('9.10', 'one in eight leaves', (SENT / 7, MS, RATIO), 'or is it seven'),
    ('9.10', 'one way, one expert', (SENT / 4, MS, RATIO), 'to one expert alone'),
    ('9.10', 'forward only', (SENT, MS / 2, RATIO), 'the backward pass sends gradients'),
    ('9.10', 'one layer', (SENT, MS / 32, RATIO), 'that is one layer'),
    ('9.10', 'backward twice', (SENT, MS * 1.5, RATIO), 'computes twice as much'),
    ('9.10', 'seconds', (SENT, MS / 1000, RATIO), 'these are seconds'),
    ('9.10', 'gigabits', (SENT, MS * 8, RATIO), 'not gigabits'),
    ('9.10', 'upside down', (SENT, MS, 1 / RATIO), 'upside down'),
    ('9.10', 'one matrix', (SENT, MS, RATIO / 3), 'has three matrices'),
    ('9.10', 'half the operations', (SENT, MS, RATIO / 2), 'two operations'),
    ('9.10', 'sending of a step', (SENT, MS, RATIO / 64), 'of one layer both'),
]
