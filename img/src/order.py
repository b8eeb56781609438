"""Allreduces that two ranks start in different orders, and in the same order.

On rank 0, gradients become ready in the order d, c, b, a; on rank 1, in the order c, d, a, b.
A: each rank starts an allreduce whenever a gradient is ready. Rank 0's first one, d, is summed with
rank 1's first one, c, and every sum mixes two gradients. B: both ranks start d, c, b, a. On rank 1,
c waits for d, and a waits for b, so each gradient is summed with its own kind.

Time runs to the right. A sum begins when both ranks have started it.
"""

import draw as d

READY = 'dcba', 'cdab'  # on rank 0, on rank 1
TIMES = (140, 275, 410, 545)  # when their gradients become ready
BAR_W, BAR_H, RADIUS, GAP = 70, 34, 17, 42

figure = d.Figure(566, __doc__)


def case(y, letter, name, sums, turn):
    """Draw both ranks' gradients, each with an arrow to the sum at its ``turn``."""
    figure.case(y, letter, name)
    top = y + 46 + RADIUS + GAP  # of the sums
    figure.name(d.MARGIN, top + BAR_H / 2, 'sum')
    for k, side in enumerate((-1, 1)):
        edge = (top, top + BAR_H)[k]
        row = edge + side * (GAP + RADIUS)
        figure.name(d.MARGIN, row, f'rank {k}', k)
        for i, (x, gradient) in enumerate(zip(TIMES, READY[k])):
            target = sums[turn(i, gradient)], edge
            figure.gradient(x, row, gradient, k, r=RADIUS)
            figure.arrow(d.towards((x, row), target, RADIUS + 2), target)
    for n, x in enumerate(sums):
        pair = (next(g for i, g in enumerate(ready) if turn(i, g) == n) for ready in READY)
        figure.bar(x - BAR_W / 2, top, BAR_W, BAR_H, ' + '.join(pair))


AT_ONCE = 195, 330, 465, 600  # where the sums are drawn
IN_TURN = 330, 408, 600, 678
case(37, 'A', 'Started as they become ready: d is summed with c', AT_ONCE, lambda i, _: i)
name = 'Started in the same order: on rank 1, c and a wait their turn'
case(292, 'B', name, IN_TURN, lambda _, gradient: 'dcba'.index(gradient))
