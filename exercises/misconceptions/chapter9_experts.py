"""Wrong answers to exercise 9.6, each with a part of the hint that it gets."""

import torch


def mixture(
    back='inverse', weight='own', send=lambda x: x, counts='all', order='sorted', times=lambda w: w
):
    """Send tokens to experts, with a known mistake in their order, counts or weights."""

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


WRONG = [
    ('9.6', 'not put back in order', mixture(back='never', weight='sorted'), "the experts' order"),
    ('9.6', 'weights forgotten', mixture(weight='none'), "multiplied by the router's"),
    ('9.6', 'an expert without tokens', mixture(counts='without 0'), 'pass one for each, even if'),
]
