"""What students get wrong in exercises 9.3 to 9.5, and a part of the hint that each gets."""

import torch

from mgpu_helpers.pytorch.language import context


def combine(weight='exp', out='mean', total='scaled', largest=torch.maximum):
    """Weights of the two parts, what is made of the outputs, and of the sums, by another way."""

    def answer(first, second):
        (o1, m1, t1), (o2, m2, t2) = first, second
        m = largest(m1, m2)
        s1, s2 = {
            'exp': lambda: ((m1 - m).exp(), (m2 - m).exp()),
            'none': lambda: (torch.ones_like(t1), torch.ones_like(t2)),
            'turned': lambda: ((m - m1).exp(), (m - m2).exp()),
            'no maximum': lambda: (m1.exp(), m2.exp()),
            'both to -inf': lambda: (
                (m1 - torch.minimum(m1, m2)).exp(),
                (m2 - torch.minimum(m1, m2)).exp(),
            ),
        }[weight]()
        t = s1 * t1 + s2 * t2 if total == 'scaled' else t1 + t2
        o = {
            'mean': lambda: (
                (o1 * (s1 * t1)[:, None] + o2 * (s2 * t2)[:, None]) / (s1 * t1 + s2 * t2)[:, None]
            ),
            'undivided': lambda: o1 * (s1 * t1)[:, None] + o2 * (s2 * t2)[:, None],
            'without sums': lambda: (o1 * s1[:, None] + o2 * s2[:, None]) / t[:, None],
            'half': lambda: (o1 + o2) / 2,
            'both': lambda: o1 + o2,
            'keys': lambda: (5 * o1 + 4 * o2) / 9,
        }[out]()
        if weight in ('no maximum', 'both to -inf'):
            t = t / ((m1.exp() if weight == 'no maximum' else s1) / (m1 - m).exp())
        return o, m, t

    return answer


def done_at_the_end(first, second):
    """Right numbers, but the output is of another kind, to be divided when all is done."""
    o, m, t = combine()(first, second)
    return o * t[:, None], m, t


def nothing_back(first, second):
    """Right for two parts; a sum of 1 goes on to the third."""
    o, m, t = combine()(first, second)
    return o, m, torch.ones_like(t)


def rounds(count=0, way=-1, own='triangle', before='whole', after='nothing', first=0):
    """A ring of more or fewer rounds, the other way round, with something else to compute."""

    def answer(rank, k):
        blocks = [(rank + way * (i + first)) % k for i in range(k + count)]
        return [(b, own if b == rank else before if b < rank else after) for b in blocks]

    return answer


def in_rank_order(rank, k):
    return [(rank, 'triangle')] + [
        (b, 'whole' if b < rank else 'nothing') for b in range(k) if b != rank
    ]


def pieces(rank, k, n, which=lambda r, k: (r, 2 * k - 1 - r)):
    piece = n // (2 * k)
    return [w * piece + i for w in which(rank, k) for i in range(piece)]


def zigzag(positions=pieces, pairs=lambda positions, k, n: sum(i + 1 for i in positions)):
    return lambda rank, k, n: (positions(rank, k, n), pairs(positions(rank, k, n), k, n))


def mirrored(rank, k, n):
    there = pieces(rank, k, n)
    return there[: len(there) // 2] + there[len(there) // 2 :][::-1]


def other(which):
    return lambda rank, k, n: pieces(rank, k, n, which)


def shares(cut=1, join='cat', at=0, every=False, turned=False):
    """Cut along an axis, exchange, and join what comes."""

    def answer(x, k, all_to_all):
        parts = [x.select(cut, 0)] if cut is None else list(x.chunk(k, cut))
        if every:
            parts = [x[:, r::k] for r in range(k)]
        came = list(all_to_all(parts))
        came = came[::-1] if turned else came
        if join == 'cat':
            return torch.cat(came, at)
        return torch.stack(came, at + 1).flatten(at, at + 1)

    return answer


WRONG = [
    ('9.3', 'a mean of both', combine(out='half'), 'as if both had the same weights'),
    ('9.3', 'both added', combine(out='both'), 'weights must add up to 1'),
    ('9.3', 'without the maximum', combine(weight='none'), 'against the same maximum'),
    ('9.3', 'by numbers of keys', combine(out='keys'), 'but keys have weights'),
    ('9.3', 'not divided', combine(out='undivided'), 'not divided by the new sum'),
    ('9.3', 'divided at the end', done_at_the_end, 'not divided by the new sum'),
    ('9.3', 'sums forgotten', combine(out='without sums'), 'has been divided by its own'),
    ('9.3', 'the wrong sign', combine(weight='turned'), 'the wrong sign'),
    ('9.3', 'sums added', combine(total='added'), 'two different maxima'),
    ('9.3', 'a sum of 1', nothing_back, 'the sum is not that of'),
    ('9.3', 'the smaller maximum', combine(largest=torch.minimum), 'is that of one of them'),
    ('9.3', 'exp of the scores', combine(weight='no maximum'), 'take differences of scores'),
    ('9.3', 'exp of the larger less the smaller', combine('both to -inf'), 'take differences'),
    ('9.4', 'the last block missing', rounds(count=-1), 'is the last one there'),
    ('9.4', 'one round too many', rounds(count=1), 'need not travel on'),
    ('9.4', 'the other way', rounds(way=1), 'receive from the one before'),
    ('9.4', 'begins with what comes', rounds(first=1), 'a rank has its own keys'),
    ('9.4', 'in the order of ranks', in_rank_order, 'one round earlier'),
    ('9.4', 'its own skipped', rounds(own='nothing'), 'the first query sees one key'),
    ('9.4', 'its own whole', rounds(own='whole'), 'the first query sees one key'),
    ('9.4', 'all that come whole', rounds(after='whole'), 'after all tokens of rank'),
    ('9.4', 'a triangle of each', rounds(before='triangle'), 'before all tokens of rank'),
    (
        '9.4',
        'earlier and later mixed up',
        rounds(before='nothing', after='whole'),
        'before all tokens of rank',
    ),
    ('9.5', 'neighbours', zigzag(other(lambda r, k: (2 * r, 2 * r + 1))), 'these are neighbours'),
    ('9.5', 'dealt one by one', zigzag(lambda r, k, n: list(range(r, n, k))), 'dealt one by one'),
    ('9.5', 'the second piece backwards', zigzag(mirrored), 'in another order'),
    ('9.5', 'the later piece first', zigzag(other(lambda r, k: (2 * k - 1 - r, r))), 'order'),
    ('9.5', 'pieces r and r + k', zigzag(other(lambda r, k: (r, r + k))), 'counted from the end'),
    ('9.5', 'one piece too far', zigzag(other(lambda r, k: (r, 2 * k - r))), 'from the end'),
    (
        '9.5',
        'no mask',
        zigzag(pairs=lambda positions, k, n: len(positions) * n),
        'a query sees the keys up to itself',
    ),
    ('9.5', 'not itself', zigzag(pairs=lambda positions, k, n: sum(positions)), 'sees itself, too'),
    (
        '9.5',
        'its own keys',
        zigzag(pairs=lambda positions, k, n: len(positions) * (len(positions) + 1) // 2),
        'the others come round the ring',
    ),
    ('9.5', 'half of the square', zigzag(pairs=lambda p, k, n: n * n // k // 2), 'its diagonal'),
    (
        '9.5',
        'two triangles',
        zigzag(pairs=lambda p, k, n: n // (2 * k) * (n // (2 * k) + 1)),
        'within two triangles',
    ),
    ('9.5', 'all ranks', zigzag(pairs=lambda p, k, n: n * (n + 1) // 2), 'all ranks together'),
    (
        '9.5',
        "the course's function",
        zigzag(other(lambda r, k: context.zigzag(k)[r])),
        "is the course's answer",
    ),
]
