"""What students get wrong in exercise 9.6, and a part of the hint that each gets."""

import math

import torch


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


WRONG = [
    ('9.6', 'not put back', mixture(back='never', weight='sorted'), "the experts' order"),
    ('9.6', 'not put back, weights by token', mixture(back='never'), "weights in the tokens'"),
    ('9.6', 'sorted once more', mixture(back='again'), 'sorted once more'),
    ('9.6', 'sorted with their weights once more', sorted_at_the_end, 'sorted once more'),
    ('9.6', 'weights by expert', mixture(weight='sorted'), 'their weights are not'),
    ('9.6', 'weights forgotten', mixture(weight='none'), "the router's weights are not"),
    ('9.6', 'weights before the expert', mixture(weight='before'), 'not to what it gets'),
    ('9.6', 'never sorted', mixture(order='as they are'), 'that were not sorted'),
    ('9.6', 'an expert without tokens', mixture(counts='without 0'), 'one for each, also a 0'),
    ('9.6', 'bincount alone', mixture(counts='to the last'), 'one for each, also a 0'),
    ('9.6', 'even counts', mixture(counts='even'), 'have chosen them'),
    ('9.6', 'a call for each expert', one_by_one, 'call it once'),
    ('9.6', 'a copy sent', mixture(send=lambda x: x.detach()), 'it stays with the experts'),
    (
        '9.6',
        'weights as numbers',
        mixture(times=lambda w: w.detach()),
        'a router that gets none never learns',
    ),
    (
        '9.6',
        'nothing has a gradient',
        mixture(send=lambda x: x.detach(), times=lambda w: w.detach()),
        'without a way back',
    ),
]
