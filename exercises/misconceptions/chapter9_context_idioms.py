"""Right answers to exercises 9.3 to 9.5 that go another way than ours: no hint for them."""

import math

import numpy as np
import torch


def by_logarithms(first, second):
    (o1, m1, t1), (o2, m2, t2) = first, second
    l1, l2 = m1 + t1.log(), m2 + t2.log()
    both, m = torch.logaddexp(l1, l2), m1.maximum(m2)
    out = (l1 - both).exp()[:, None] * o1 + (l2 - both).exp()[:, None] * o2
    return out, m, (both - m).exp()


def as_weights_of_two(first, second):
    out, largest, total = (torch.stack(two) for two in zip(first, second))
    weights = (largest + total.log()).softmax(0)
    m = largest.amax(0)
    return (weights[..., None] * out).sum(0), m, ((largest - m).exp() * total).sum(0)


def query_by_query(first, second):
    outs, largests, totals = [], [], []
    for o1, m1, t1, o2, m2, t2 in zip(*(x.tolist() for x in (*first, *second))):
        m = max(m1, m2)
        w1, w2 = t1 * math.exp(m1 - m), t2 * math.exp(m2 - m)
        outs.append([(w1 * a + w2 * b) / (w1 + w2) for a, b in zip(o1, o2)])
        largests.append(m)
        totals.append(w1 + w2)
    return [torch.tensor(x, dtype=torch.float64) for x in (outs, largests, totals)]


def one_correction(first, second):
    """Correct only the part with the smaller maximum, as a running softmax does; in place."""
    (out, m, t), (o2, m2, t2) = first, second
    new = torch.where(m > m2, m, m2)
    out *= t[:, None] * torch.exp(m - new)[:, None]
    t *= torch.exp(m - new)
    out += o2 * (t2 * torch.exp(m2 - new))[:, None]
    t += t2 * torch.exp(m2 - new)
    return out / t.unsqueeze(1), new, t


def blocks_passed_on(rank, k):
    held, seen = list(range(k)), []
    for _ in range(k):
        block = held[rank]
        seen.append([block, ('nothing', 'triangle', 'whole')[(block <= rank) + (block < rank)]])
        held = [held[-1], *held[:-1]]
    return seen


def down_then_around(rank, k):
    before = [(b, 'whole') for b in range(rank - 1, -1, -1)]
    after = [(b, 'nothing') for b in range(k - 1, rank, -1)]
    return [(rank, 'triangle'), *before, *after]


def by_recursion(rank, k, block=None):
    block = rank if block is None else block
    what = 'triangle' if block == rank else ('nothing', 'whole')[block < rank]
    yield block, what
    following = block - 1 if block else k - 1
    if following != rank:
        yield from by_recursion(rank, k, following)


def in_arrays(rank, k):
    blocks = np.roll(np.arange(k)[::-1], rank + 1)
    return zip(blocks, np.select([blocks < rank, blocks == rank], ['whole', 'triangle'], 'nothing'))


def chunks(rank, k, n):
    pieces = torch.arange(n).chunk(2 * k)
    positions = torch.cat([pieces[rank], pieces[-1 - rank]])
    return positions, (positions + 1).sum()


def folded(rank, k, n):
    front, back = np.arange(n).reshape(2, k, -1)
    positions = np.concatenate([front[rank], back[::-1][rank]])
    mask = positions[:, None] >= np.arange(n)
    return positions, np.count_nonzero(mask)


def two_ranges(rank, k, n):
    m = n // k // 2
    positions = list(range(rank * m, rank * m + m)) + list(range(n - rank * m - m, n - rank * m))
    return tuple(positions), n * (n + 1) // 2 // k  # all have the same


def query_by_key(rank, k, n):
    positions = [i for i in range(n) if i * 2 * k // n in (rank, 2 * k - 1 - rank)]
    pairs = 0
    for query in positions:
        for key in range(n):
            pairs += key <= query
    return iter(positions), float(pairs)


def views(x, k, all_to_all):
    t, heads, d = x.shape
    parts = x.view(t, k, heads // k, d).permute(1, 0, 2, 3)
    return torch.stack(all_to_all(list(parts.contiguous()))).reshape(k * t, heads // k, d)


def slices(x, k, all_to_all):
    own, found = x.shape[1] // k, []
    came = all_to_all([x[:, r * own : (r + 1) * own] for r in range(k)])
    for part in came:
        for token in part:
            found.append(token)
    return torch.stack(found)


RIGHT = [
    ('9.3', 'by logarithms of sums', by_logarithms),
    ('9.3', 'a softmax over two parts', as_weights_of_two),
    ('9.3', 'query by query', query_by_query),
    ('9.3', 'one corrected, in place', one_correction),
    ('9.4', 'blocks passed on', blocks_passed_on),
    ('9.4', 'down, then around', down_then_around),
    ('9.4', 'by recursion', by_recursion),
    ('9.4', 'arrays', in_arrays),
    ('9.5', 'chunks', chunks),
    ('9.5', 'folded, the mask counted', folded),
    ('9.5', 'two ranges, the square shared out', two_ranges),
    ('9.5', 'query by key', query_by_key),
]
