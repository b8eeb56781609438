"""Wrong answers to exercise 6.8, each with a part of its hint, and other right answers."""

import torch


def unscaled(kind=torch.float32, back=torch.float32, ranks=True, scale_out=True, finite='sum'):
    def answer(grads, scale, dist):
        if finite == 'own, at once' and not all(g.isfinite().all() for g in grads):
            return None, scale / 2
        own = all(g.isfinite().all() for g in grads)
        means = [g.to(kind) for g in grads]
        for g in means:
            dist.all_reduce(g)
            g /= dist.get_world_size() if ranks else 1
            g /= scale if scale_out else 1
        good = own if finite == 'own' else all(g.isfinite().all() for g in means)
        if good or finite == 'never':
            return [g.to(back) for g in means], scale
        if finite == 'zeros':
            return [g.nan_to_num(0, 0, 0) for g in means], scale / 2
        return None, scale if finite == 'kept' else scale / 2

    return answer


def one_message(grads, scale, dist):
    joined = torch.cat([g.flatten() for g in grads]).double() / dist.get_world_size()
    work = dist.all_reduce(joined, op=dist.ReduceOp.SUM, async_op=True)
    work.wait()
    if not joined.sum().isfinite():
        return [None, scale * 0.5]
    parts = (joined / scale).float().split([g.numel() for g in grads])
    return [[part.view_as(g) for part, g in zip(parts, grads)], scale]


def votes_first(grads, scale, dist):
    bad = torch.tensor(float(any((~torch.isfinite(g)).any() for g in grads)))
    dist.all_reduce(bad)
    if bad > 0:
        return None, scale / 2
    means = []
    for g in grads:
        whole = torch.zeros(g.shape).copy_(g)
        dist.all_reduce(whole)
        means.append(whole.div_(scale).div_(dist.get_world_size()))
    return means, scale


WRONG = [
    ('6.8', 'each rank decides alone', unscaled(finite='own'), 'replicas drift apart'),
    ('6.8', 'the scale is not halved', unscaled(finite='kept'), 'next scale is 1024, but 512'),
    ('6.8', 'summed in float16', unscaled(kind=torch.float16), 'only the sum overflows float16'),
]
RIGHT = [
    ('6.8', 'one message, async_op, in lists', one_message),
    ('6.8', 'votes first', votes_first),
]
