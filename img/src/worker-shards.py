"""Ten examples in joint batches of four, divided among three workers.

The epoch, shuffled: examples 7 2 9 0, 5 3 8 1 and 6 4, three joint batches. A worker takes the
examples from len * rank // 3 up to len * (rank + 1) // 3 of each. In a batch of four the bounds are
0 1 2 4: worker 0 gets 7, worker 1 gets 2, worker 2 gets 9 and 0; then 5, 3, and 8 and 1. In the
last batch, of two, they are 0 0 1 2: worker 0 gets none, worker 1 gets 6, worker 2 gets 4. Every
example is used once, and every worker makes three steps.

Worker r of n takes the examples from len(X) · r // n up to len(X) · (r + 1) // n: each
example once. All make three steps: a worker without examples still takes part and pushes zeros.
"""

import draw as d
from lanes import lane

WORKERS, BATCH = 3, 4
EPOCH = (7, 2, 9, 0, 5, 3, 8, 1, 6, 4)  # the same order on every worker, from the same seed

figure = d.Figure(456, __doc__, 'Every worker takes its shard of the same joint batch')

START, CELL, GAP = 140, 44, 28
EPOCH_Y, TOP, LANE_H, LANE_PITCH = 120, 194, 52, 62
COUNT = 692
batches = [EPOCH[i : i + BATCH] for i in range(0, len(EPOCH), BATCH)]
rows = [lane(figure, TOP + r * LANE_PITCH, LANE_H, r, f'worker {r}') for r in range(WORKERS)]
figure.name(d.MARGIN, EPOCH_Y, 'joint batch')
figure.hint(d.MARGIN, EPOCH_Y + 36, 'bounds', anchor='start')
counts = [0] * WORKERS
x = START
for step, batch in enumerate(batches):
    n = len(batch)
    bounds = [n * r // WORKERS for r in range(WORKERS + 1)]
    figure.label(x + n * CELL / 2, EPOCH_Y - 40, f'step {step + 1}', bold=True)
    for bound in sorted(set(bounds)):  # each bound below its edge; equal bounds side by side
        words = ', '.join([str(bound)] * bounds.count(bound))
        figure.hint(x + bound * CELL, EPOCH_Y + 36, words)
        edge = x + bound * CELL
        figure.line((edge, EPOCH_Y + 21), (edge, EPOCH_Y + 27), color=d.MUTED)
    for r in range(WORKERS):
        for i in range(bounds[r], bounds[r + 1]):
            left = x + i * CELL
            for y, fill in ((EPOCH_Y, d.TINT[r]), (rows[r], d.WHITE)):
                figure.rect(left + 1, y - 19, CELL - 2, 38, fill, d.SOLID[r], r=0, width=2)
                figure.label(left + CELL / 2, y, str(batch[i]), size=d.LARGE)
        if bounds[r] == bounds[r + 1]:
            left = x + bounds[r] * CELL
            box = left + 1, rows[r] - 19, 2 * CELL - 2, 38
            figure.rect(*box, 'none', d.SHADE[r], r=0, dash='3 3')
            figure.small(left + CELL, rows[r], 'none')
        counts[r] += bounds[r + 1] - bounds[r]
    x += n * CELL + GAP
figure.label(COUNT, EPOCH_Y - 40, 'in all', bold=True)
figure.label(COUNT, EPOCH_Y, str(len(EPOCH)), size=d.LARGE)
for r in range(WORKERS):
    figure.label(COUNT, rows[r], str(counts[r]), size=d.LARGE)
