"""What students get wrong in exercise 9.6, and a part of the hint that each gets."""

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


WRONG = [
    ('9.6', 'not put back', mixture(back='never', weight='sorted'), "the experts' order"),
    ('9.6', 'weights forgotten', mixture(weight='none'), "the router's weights are not"),
    ('9.6', 'an expert without tokens', mixture(counts='without 0'), 'give one for each, even if'),
]
