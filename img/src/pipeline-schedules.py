"""Two schedules of a pipeline with four stages and six micro-batches.

Schematic: a backward pass takes twice as long as a forward pass. In both schedules, stage 0 begins,
and each stage begins one forward pass after the stage before it. GPipe: all six forward passes,
then all six backward passes. 1F1B: a stage runs its first backward pass as early as possible, then
alternates forward and backward passes. Both take 27 units of time, of which each stage is idle for
9, one third.

Light: a forward pass; dark: a backward pass, with the number of the micro-batch. Dashed:
idle, the bubble. It is one third, as the formula says: (4 − 1) / (6 + 4 − 1) = 3/9.
"""

import draw as d

STAGES, MICRO = 4, 6

figure = d.Figure(466, __doc__)


def gpipe(stage):
    return [(kind, i) for kind in 'fb' for i in range(MICRO)]


def one_f_one_b(stage):
    ahead, order = STAGES - 1 - stage, []
    order += [('f', i) for i in range(ahead)]
    for i in range(MICRO):
        order += [('f', ahead + i)] * (ahead + i < MICRO) + [('b', i)]
    return order


def times(order_of):
    """Return when each pass ends if it begins as early as possible.

    It iterates: each round settles more of the end times that other passes wait for.
    """
    ends = {}
    for s in [*range(STAGES)] * MICRO * STAGES:
        free = 0
        for kind, i in order_of(s):
            ready = ends.get((s - 1 if kind == 'f' else s + 1, kind, i), 0)
            free = ends[s, kind, i] = max(free, ready) + (1 if kind == 'f' else 2)
    return ends


LEFT, ROW, BOX = 96, 32, 26
UNIT = (d.RIGHT - LEFT) / (3 * (MICRO + STAGES - 1))
for title, order_of, held, top in (
    ('GPipe: all forward, then all backward', gpipe, 'keeps 6, 6, 6, 6 micro-batches', 62),
    ('1F1B: one forward, one backward', one_f_one_b, 'keeps 4, 3, 2, 1 micro-batches', 256),
):
    figure.headline(title, top - 18)
    figure.text(d.RIGHT, top - 18, held, fill=d.MUTED, anchor='end')
    ends = times(order_of)
    whole = max(ends.values())
    for s in range(STAGES):
        y = top + s * ROW
        figure.text(d.MARGIN, y + 18, f'stage {s}', fill=d.SHADE[s], bold=True)
        figure.idle(LEFT, y, whole * UNIT, BOX)
    for (s, kind, i), end in ends.items():
        start = end - (1 if kind == 'f' else 2)
        y = top + s * ROW
        fill = d.TINT[s] if kind == 'f' else d.SHADE[s]
        x, width = LEFT + start * UNIT, (end - start) * UNIT
        figure.rect(x, y, width, BOX, fill, d.SOLID[s], r=0, width=1)
        ink = d.SHADE[s] if kind == 'f' else d.WHITE
        figure.small(LEFT + (start + end) / 2 * UNIT, y + BOX / 2, str(i), fill=ink)
