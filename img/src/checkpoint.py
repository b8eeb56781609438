"""A checkpoint: written under a temporary name, then renamed.

Three steps, each with the contents of the run's folder. 1: epoch-0002 is complete, and the new
checkpoint is half written under a name that ends in .tmp. 2: the .tmp is complete. 3: it is renamed
to epoch-0003, in one step. Killed in step 1 or 2, a run resumes from epoch 2; killed in step 3,
from epoch 2 or 3; never from half a checkpoint.

A name that ends in .tmp is never loaded. For the file system, renaming is atomic.
"""

import draw as d

TITLE = 'Killed at any moment: the old checkpoint or the new one, never half'
figure = d.Figure(436, __doc__, TITLE)

COLUMN, GAP = 226, 17
TOP, HEIGHT, FILE, PAD = 126, 158, 34, 14
ROWS = (TOP + 54, TOP + 124)  # the y positions of the two checkpoints


def checkpoint(x, y, what, written=1.0, w=COLUMN - 2 * PAD):
    top = y - FILE / 2
    if written < 1:
        figure.rect(x, top, w, FILE, 'none', d.DATA_EDGE, r=0, dash='3 3')
    figure.data(x, top, w * written, FILE, what)


STEPS = (
    ('Write aside', 'under a temporary name', 'epoch 2'),
    ('All is there', 'parameters, settings', 'epoch 2'),
    ('Rename', 'one step: all or nothing', 'epoch 2 or 3'),
)
OLD, NEW = 'epoch-0002', 'epoch-0003'
FOUND = TOP + HEIGHT + 72
for i, (name, what, found) in enumerate(STEPS):
    x = d.MARGIN + i * (COLUMN + GAP)
    left, middle = x + PAD, x + COLUMN / 2
    figure.badge(x + 13, 79, i + 1, r=13)
    figure.text(x + 35, 84, name, size=15, bold=True)
    figure.text(x, 113, what, size=d.SMALL, fill=d.MUTED)
    figure.rect(x, TOP, COLUMN, HEIGHT, d.WHITE, d.LINE, r=9)
    figure.text(left, ROWS[0] - 25, OLD, size=d.SMALL, mono=True)
    checkpoint(left, ROWS[0], 'epoch 2')
    y = ROWS[1] - 25
    if i < 2:
        figure.text(left, y, f'{NEW}.tmp', size=d.SMALL, mono=True)
    else:
        figure.text(left, y, '….tmp', size=d.SMALL, fill=d.MUTED, mono=True)
        figure.arrow((left + 46, y - 4), (left + 72, y - 4))
        figure.text(left + 79, y, NEW, size=d.SMALL, mono=True, bold=True)
    checkpoint(left, ROWS[1], ('…', 'epoch 3', 'epoch 3')[i], (0.6, 1, 1)[i])
    figure.arrow((middle, TOP + HEIGHT), (middle, FOUND - FILE / 2), dash='5 4')
    figure.cross(middle, TOP + HEIGHT + 20)
    figure.text(middle - 22, TOP + HEIGHT + 25, 'killed', size=d.SMALL, anchor='end')
    figure.text(middle + 12, TOP + HEIGHT + 48, 'resumes from', size=d.SMALL)
    checkpoint(left, FOUND, found)
