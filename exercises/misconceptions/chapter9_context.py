"""Wrong answers to exercises 9.3 to 9.5, each with a part of the hint that it gets."""

import torch


def combine(weight='exp', out='mean', total='scaled', largest=torch.maximum):
    """Combine two parts with the wrong weights, outputs, sums or maximum."""

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


def rounds(count=0, way=-1, own='triangle', before='whole', after='nothing', first=0):
    """Return the rounds of a ring that is too long, turns the wrong way, or computes too much."""

    def answer(rank, k):
        blocks = [(rank + way * (i + first)) % k for i in range(k + count)]
        return [(b, own if b == rank else before if b < rank else after) for b in blocks]

    return answer


def pieces(rank, k, n, which=lambda r, k: (r, 2 * k - 1 - r)):
    piece = n // (2 * k)
    return [w * piece + i for w in which(rank, k) for i in range(piece)]


def zigzag(positions=pieces, pairs=lambda positions, k, n: sum(i + 1 for i in positions)):
    return lambda rank, k, n: (positions(rank, k, n), pairs(positions(rank, k, n), k, n))


def other(which):
    return lambda rank, k, n: pieces(rank, k, n, which)


WRONG = [
    ('9.3', 'a mean of both', combine(out='half'), 'as if their weights had'),
    ('9.3', 'without the maximum', combine(weight='none'), 'relative to the same maximum'),
    ('9.3', 'sums added', combine(total='added'), 'relative to different maxima'),
    ('9.4', 'one round too many', rounds(count=1), 'is not sent on'),
    ('9.4', 'the other direction', rounds(way=1), 'receive from the previous one'),
    ('9.4', 'its own block computed whole', rounds(own='whole'), 'the first query sees one key'),
    ('9.5', 'neighbours', zigzag(other(lambda r, k: (2 * r, 2 * r + 1))), 'these are neighbours'),
    (
        '9.5',
        'no mask',
        zigzag(pairs=lambda positions, k, n: len(positions) * n),
        'sees only the keys up to itself',
    ),
    ('9.5', 'half of the square', zigzag(pairs=lambda p, k, n: n * n // k // 2), 'the diagonal'),
]
