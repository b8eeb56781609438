"""What is wrong or too expensive in the puzzles, and a part of the hint that each gets."""

from mgpu_helpers.collectives import (
    all_gather,
    allreduce_butterfly,
    allreduce_halving_doubling,
    allreduce_ring,
    allreduce_tree,
    reduce_scatter,
)

ALL = [3, 2, 1, 0]
OWNER = {4: 0, 3: 0, 7: 1, 6: 1, 2: 1, 5: 2, 1: 2, 0: 2}


def leaders(data):
    for s in (0, 4):
        for i in (1, 2, 3):
            data[s] += data[s + i].copyto(s)
    crossing = data[0].copyto(4), data[4].copyto(0)
    data[4] += crossing[0]
    data[0] += crossing[1]
    for s in (0, 4):
        for i in (1, 2, 3):
            data[s].copyto(data[s + i])


def in_thirds(written):
    """Reach the second target; what crossed is added by ``written``."""

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


def within(data):
    allreduce_ring(data[:4])
    allreduce_ring(data[4:])


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


def back_first(m, stage, p):
    return gpipe(m, stage, p)[::-1]


def without_weights(m, stage, p):
    return gpipe(m, stage, p)[: 2 * m]


def pairs_alone(data):
    for i in range(3):
        allreduce_ring([data[i], data[i + 3]])


RIGHT = [
    ('puzzles.2', 'x[:] += r', in_thirds(add_to_all)),
    ('puzzles.2', 'x[:] = x + r', in_thirds(write_the_sum)),
]

WRONG = [
    ('puzzles.1', 'the largest first', [(40, []), (40, []), (16, ALL)], 'which has 16 examples'),
    ('puzzles.1', 'all alike', [(32, []), (32, []), (32, ALL)], 'which has 32 examples'),
    ('puzzles.1', 'four', [(8, []), (8, []), (40, []), (40, ALL)], 'begins every layer anew'),
    (
        'puzzles.1',
        'summed each time',
        [(16, ALL), (40, ALL), (40, ALL)],
        '90 MB summed, and the target',
    ),
    (
        'puzzles.1',
        'one is summed early',
        [(16, []), (40, [0]), (40, ALL[:3])],
        'sums of layers [0] lack',
    ),
    ('puzzles.1', 'too large', [(48, []), (48, ALL)], 'have no room'),
    (
        'puzzles.2',
        'a ring over all',
        allreduce_ring,
        '14 MB between the servers, and the target is 8',
    ),
    ('puzzles.2', 'one piece', in_pieces(1), '1.745 ms, and the target is 1.65'),
    ('puzzles.2', 'pieces one after the other', in_pieces(3), 'be on its way'),
    ('puzzles.2', 'everything by two leaders', leaders, 'does nothing for 1.534 ms'),
    ('puzzles.2', 'many small pieces', in_pieces(8), 'each pays 14'),
    ('puzzles.2', 'within the servers only', within, 'do not hold the sum'),
    (
        'puzzles.3',
        'the largest to who has least',
        list(zip((7, 4, 5, 3, 1, 0, 6, 2), (0, 1, 2, 2, 0, 1, 2, 1))),
        '21 MB of state on the fullest rank, and the target is 20',
    ),
    ('puzzles.3', 'as they get ready', [(i, OWNER[i]) for i in range(7, -1, -1)], 'begin at 13 ms'),
    ('puzzles.3', 'rank by rank', list(OWNER.items()), 'who gets the first tensors'),
    ('puzzles.3', 'one is forgotten', [(i, OWNER[i]) for i in range(7)], 'has one turn'),
    ('puzzles.4', 'each alone', [[i] for i in range(5, -1, -1)], '47.5 ms, and the target is 39.5'),
    ('puzzles.4', 'one bucket', [list(range(6))], 'a network can send meanwhile'),
    ('puzzles.4', 'as they get ready', [[5], [4, 3], [2, 1, 0]], 'who could wait'),
    ('puzzles.4', 'the first layers first', [[0, 1], [2, 3], [4, 5]], 'should never wait'),
    ('puzzles.4', 'one is forgotten', [[5], [4, 3], [2, 1]], 'is in one bucket'),
    ('puzzles.5', '1F1B in halves', one_f_one_b, '24 ms, and the target is 21'),
    (
        'puzzles.5',
        'all forward first',
        gpipe,
        '6 micro-batches kept at a time, and the target is 4',
    ),
    ('puzzles.5', 'all weights last', lambda *a: one_f_one_b(*a, together=False), 'is kept from'),
    ('puzzles.5', 'backward first', back_first, 'nothing goes on'),
    ('puzzles.5', 'no weights', without_weights, 'stage 0: weights passes'),
    ('puzzles.6', 'a ring', allreduce_ring, '10 steps, and the target is 6'),
    (
        'puzzles.6',
        'two only help',
        allreduce_halving_doubling,
        '3 MB through the busiest port, and',
    ),
    ('puzzles.6', 'a butterfly', allreduce_butterfly, '3.6 MB through the busiest port'),
    ('puzzles.6', 'a tree', allreduce_tree, 'whole arrays travel'),
    ('puzzles.6', 'pairs alone', pairs_alone, 'do not hold the sum'),
    (
        'puzzles.7',
        'neighbours',
        [list(range(6 * r, 6 * r + 6)) for r in range(4)],
        'rank 1 computes for 34 ms, rank 3 for 15',
    ),
    (
        'puzzles.7',
        'zig-zag',
        [[*range(3 * r, 3 * r + 3), *range(21 - 3 * r, 24 - 3 * r)] for r in range(4)],
        '25 pieces received, and the target is 20',
    ),
    ('puzzles.7', 'dealt', [list(range(r, 24, 4)) for r in range(4)], 'who shares a document'),
    (
        'puzzles.7',
        'a document for each',
        [list(range(a, b)) for a, b in ((0, 10), (10, 16), (16, 21), (21, 24))],
        'has memory for 6',
    ),
    ('puzzles.7', 'one is there twice', [list(range(6))] * 4, 'is on one rank'),
]
