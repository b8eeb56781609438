"""What students get wrong in exercises 9.7 and 9.8, and a part of the hint that each gets."""

import math

import torch

from mgpu_helpers.pytorch import balance


def mixture(
    back='inverse', weight='own', send=lambda x: x, counts='all', order='sorted', times=lambda w: w
):
    """Tokens sent in some order with some counts, and what comes back put somewhere."""

    def answer(x, choices, weights, k, exchange):
        by_expert = choices.argsort(stable=True)
        rows = x[by_expert] if order == 'sorted' else x
        numbers = {
            'all': choices.bincount(minlength=k),
            'without 0': choices.unique(return_counts=True)[1],
            'to the last': choices.bincount(),
            'even': torch.tensor([len(x) // k + (e < len(x) % k) for e in range(k)]),
        }[counts]
        w = times(weights)[:, None]
        if weight == 'before':
            rows = rows * w[by_expert]
        results = exchange(send(rows), numbers.tolist())
        if back == 'inverse':
            results = results[by_expert.argsort()] if order == 'sorted' else results
        elif back == 'again':
            results = results[by_expert]
        if weight in ('own', 'sorted'):
            results = results * (w if weight == 'own' else w[by_expert])
        return results

    return answer


def one_by_one(x, choices, weights, k, exchange):
    out = torch.zeros_like(x)
    for e in range(k):
        mine = choices == e
        out[mine] = exchange(x[mine], [int(mine.sum()) * (e == i) for i in range(k)])
    return out * weights[:, None]


def sorted_at_the_end(x, choices, weights, k, exchange):
    order = choices.argsort(stable=True)
    return (exchange(x[order], choices.bincount(minlength=k)) * weights[order, None])[order]


def load(
    scale=lambda loss, n, k: k * loss,
    f=lambda counts, n: counts / n,
    P=lambda p: p.mean(0),
    rounded=math.ceil,
    room=lambda factor, n, k: factor * n / k,
    drop='last',
    count=lambda choices, k: choices.bincount(minlength=k),
    both=None,
):
    """Another loss by other shares and means, another capacity, others that are dropped."""

    def answer(probabilities, factor):
        n, k = probabilities.shape
        best, choices = probabilities.max(1)
        counts = choices.bincount(minlength=k)
        shares, means = f(counts, n), P(probabilities)
        if both == 'f':
            means = shares
        elif both == 'P':
            shares = means
        loss = scale((shares * means).sum(), n, k)
        capacity, dropped = rounded(room(factor, n, k)), []
        for e in range(k):
            mine = (choices == e).nonzero().flatten().tolist()
            if drop == 'least sure':
                mine.sort(key=lambda i: -best[i])
            over = max(0, len(mine) - capacity)
            dropped += {
                'first': mine[:over],
                'all': mine * (over > 0),
                'nobody': [],
            }.get(drop, mine[capacity:])
        return count(choices, k), loss, sorted(dropped)

    return answer


def kept_only(probabilities, factor):
    """Count the tokens that find room."""
    counts, loss, dropped = load()(probabilities, factor)
    choices = probabilities.argmax(1).tolist()
    return [c - sum(choices[i] == e for i in dropped) for e, c in enumerate(counts)], loss, dropped


def chosen_only(p):
    best, choices = p.max(1)
    return torch.stack([best[choices == e].sum() / len(p) for e in range(p.shape[1])])


def batch_by_batch(probabilities, factor):
    """Drop whatever comes after so many tokens in all."""
    counts, loss, _ = load()(probabilities, factor)
    n, k = probabilities.shape
    return counts, loss, list(range(math.ceil(factor * n / k), n))


def through_numbers(p):
    return torch.tensor(p.mean(0).tolist(), dtype=p.dtype)


WRONG = [
    ('9.7', 'not put back', mixture(back='never', weight='sorted'), "the experts' order"),
    ('9.7', 'not put back, weights by token', mixture(back='never'), "weights in the tokens'"),
    ('9.7', 'sorted once more', mixture(back='again'), 'sorted once more'),
    ('9.7', 'sorted with their weights once more', sorted_at_the_end, 'sorted once more'),
    ('9.7', 'weights by expert', mixture(weight='sorted'), 'their weights are not'),
    ('9.7', 'weights forgotten', mixture(weight='none'), "the router's weights are not"),
    ('9.7', 'weights before the expert', mixture(weight='before'), 'not to what it gets'),
    ('9.7', 'never sorted', mixture(order='as they are'), 'that were not sorted'),
    ('9.7', 'an expert without tokens', mixture(counts='without 0'), 'one for each, also a 0'),
    ('9.7', 'bincount alone', mixture(counts='to the last'), 'one for each, also a 0'),
    ('9.7', 'even counts', mixture(counts='even'), 'have chosen them'),
    ('9.7', 'a call for each expert', one_by_one, 'call it once'),
    ('9.7', 'a copy sent', mixture(send=lambda x: x.detach()), 'it stays with the experts'),
    (
        '9.7',
        'weights as numbers',
        mixture(times=lambda w: w.detach()),
        'a router that gets none never learns',
    ),
    (
        '9.7',
        'nothing has a gradient',
        mixture(send=lambda x: x.detach(), times=lambda w: w.detach()),
        'without a way back',
    ),
    ('9.8', 'the factor k missing', load(lambda loss, n, k: loss), 'number of experts, 4, is'),
    (
        '9.8',
        "the course's function",
        lambda p, factor: (p.argmax(1).bincount(), balance(p, p.argmax(1)), []),
        "is the course's answer",
    ),
    ('9.8', 'a mean over experts', load(lambda loss, n, k: loss / k), 'a mean over experts'),
    ('9.8', 'counts for shares', load(f=lambda counts, n: counts), 'shares of the tokens belong'),
    ('9.8', 'counts and sums', load(f=lambda c, n: c, P=lambda p: p.sum(0)), 'counts and sums'),
    ('9.8', 'shares twice', load(both='f'), 'has no gradient'),
    ('9.8', 'probabilities twice', load(both='P'), 'where is the share'),
    ('9.8', 'probabilities of the chosen', load(P=chosen_only), 'the mean over all tokens'),
    ('9.8', 'a number', load(lambda loss, n, k: (k * loss).item()), 'leave it a tensor'),
    ('9.8', 'through numbers', load(P=through_numbers), 'leave it a tensor'),
    (
        '9.8',
        'experts without tokens left out',
        load(count=lambda choices, k: choices.unique(return_counts=True)[1]),
        'one number for each, also a 0',
    ),
    ('9.8', 'the kept ones counted', kept_only, 'of all tokens that chose it'),
    ('9.8', 'the first dropped', load(drop='first'), 'who comes first is served'),
    ('9.8', 'the least sure dropped', load(drop='least sure'), 'in the order of the sequence'),
    ('9.8', 'all of a full expert', load(drop='all'), 'some found room'),
    ('9.8', 'nobody dropped', load(drop='nobody'), 'nobody? The tokens'),
    ('9.8', 'room for all on each', load(room=lambda f, n, k: f * n), 'so is the room'),
    ('9.8', 'rounded down', load(rounded=math.floor), 'is to be rounded up'),
    (
        '9.8',
        'one too many dropped',
        load(rounded=lambda room: math.ceil(room) - 1),
        'drops nobody',
    ),
    ('9.8', 'one more kept', load(rounded=lambda room: math.floor(room) + 1), 'and one more'),
    ('9.8', 'after so many in all', batch_by_batch, 'the last of experts'),
]
