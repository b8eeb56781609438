"""Answers to the puzzles that are wrong or too expensive, each with a part of its hint."""

from mgpu_helpers.collectives import (
    all_gather,
    allreduce_halving_doubling,
    allreduce_ring,
    reduce_scatter,
)


def in_thirds(written):
    """Reach the first target; ``written`` adds the received values."""

    def two_servers(data):
        n, before = len(data[0]), None
        for c in range(4):
            now = None
            if c < 3:
                part = [x[c * n // 3 : (c + 1) * n // 3] for x in data]
                mine = reduce_scatter(part[:4]) + reduce_scatter(part[4:])
                now = part, mine, [x.as_in_context(i ^ 4) for i, x in enumerate(mine)]
            if before:
                part, mine, received = before
                for i, x in enumerate(mine):
                    written(x, received[i ^ 4])
                all_gather(part[:4])
                all_gather(part[4:])
            before = now

    return two_servers


def add_to_all(x, r):
    x[:] += r


def write_the_sum(x, r):
    x[:] = x + r


def in_pieces(pieces):
    def two_servers(data):
        for c in range(pieces):
            n = data[0].size
            part = [x[c * n // pieces : (c + 1) * n // pieces] for x in data]
            mine = reduce_scatter(part[:4]) + reduce_scatter(part[4:])
            received = [mine[i ^ 4].copyto(i) for i in range(8)]
            for x, r in zip(mine, received):
                x += r
            all_gather(part[:4])
            all_gather(part[4:])

    return two_servers


def one_f_one_b(m, stage, p, together=True):
    ahead, order = p - stage, []
    for i in range(-ahead, m):
        if i >= 0:
            order += [('inputs', i)] + [('weights', i)] * together
        if i + ahead < m:
            order.append(('forward', i + ahead))
    return order + [('weights', i) for i in range(m) if not together]


def gpipe(m, stage, p):
    return [(kind, i) for kind in ('forward', 'inputs', 'weights') for i in range(m)]


def pairs_alone(data):
    for i in range(3):
        allreduce_ring([data[i], data[i + 3]])


RIGHT = [
    ('puzzles.1', 'x[:] += r', in_thirds(add_to_all)),
    ('puzzles.1', 'x[:] = x + r', in_thirds(write_the_sum)),
]

WRONG = [
    (
        'puzzles.1',
        'a ring over all',
        allreduce_ring,
        '14 MB between the servers, and the target is 8',
    ),
    ('puzzles.1', 'one piece', in_pieces(1), '1.745 ms, and the target is 1.65'),
    ('puzzles.1', 'pieces one after the other', in_pieces(3), 'travel while devices'),
    ('puzzles.2', '1F1B in halves', one_f_one_b, '24 ms, and the target is 21'),
    (
        'puzzles.2',
        'all forward first',
        gpipe,
        '6 micro-batches kept at a time, and the target is 4',
    ),
    ('puzzles.2', 'all weights last', lambda *a: one_f_one_b(*a, together=False), 'is kept from'),
    ('puzzles.3', 'a ring', allreduce_ring, '10 rounds, and the target is 6'),
    (
        'puzzles.3',
        'two only help',
        allreduce_halving_doubling,
        '3 MB through the busiest port, and',
    ),
    ('puzzles.3', 'pairs alone', pairs_alone, 'do not end up with the sum'),
]
