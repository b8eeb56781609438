"""A checkpoint: written aside, flushed, renamed, and verified when it is loaded.

Three steps, each with what the folder holds. 1, write aside: epoch-0002.ckpt is there, whole; the
new checkpoint grows under a temporary name that ends in .tmp, half written. 2, flush: the temporary
file is whole, on the disk. 3, rename: the temporary file becomes epoch-0003.ckpt, in one step.
Killed in step 1 or 2, a run resumes from epoch 2; killed in step 3, from epoch 2 or 3; never from
half a file. Every file begins with a SHA-256. When one is loaded, the SHA-256 of what was read is
compared with that. If they are equal, the checkpoint is loaded; if not, it is refused, and the next
older one is tried.

A file that ends in .tmp is never loaded. After the rename, the name is flushed as well. The
SHA-256 in the first line of a file is that of everything else in it.
"""

import draw as d

figure = d.Figure(604, __doc__, 'Killed at any moment: the old file or the new one, never half')

COLUMN, GAP = 226, 17
TOP, HEIGHT, FILE, PAD = 126, 158, 34, 14
DIGEST = 70  # the part of a file that holds its digest
ROWS = (TOP + 54, TOP + 124)  # the middles of the two files


def file(x, y, what, written=1.0, w=COLUMN - 2 * PAD):
    top = y - FILE / 2
    if written < 1:
        figure.rect(x, top, w, FILE, 'none', d.DATA_EDGE, r=0, dash='3 3')
    figure.rect(x, top, DIGEST, FILE, d.WHITE, d.DATA_EDGE, r=0)
    figure.small(x + DIGEST / 2, y, 'SHA-256')
    figure.data(x + DIGEST, top, w * written - DIGEST, FILE, what)


STEPS = (
    ('Write aside', 'under a temporary name', 'epoch 2'),
    ('Flush', 'until the disk has every byte', 'epoch 2'),
    ('Rename', 'one step: all or nothing', 'epoch 2 or 3'),
)
OLD, NEW = 'epoch-0002.ckpt', 'epoch-0003.ckpt'
FOUND = TOP + HEIGHT + 72
for i, (name, what, found) in enumerate(STEPS):
    x = d.MARGIN + i * (COLUMN + GAP)
    left, middle = x + PAD, x + COLUMN / 2
    figure.badge(x + 13, 79, i + 1, r=13)
    figure.text(x + 35, 84, name, size=15, bold=True)
    figure.text(x, 113, what, size=d.SMALL, fill=d.MUTED)
    figure.rect(x, TOP, COLUMN, HEIGHT, d.WHITE, d.LINE, r=9)
    figure.text(left, ROWS[0] - 25, OLD, size=d.SMALL, mono=True)
    file(left, ROWS[0], 'epoch 2')
    y = ROWS[1] - 25
    if i < 2:
        figure.text(left, y, f'{NEW}.tmp', size=d.SMALL, mono=True)
    else:
        figure.text(left, y, '….tmp', size=d.SMALL, fill=d.MUTED, mono=True)
        figure.arrow((left + 46, y - 4), (left + 72, y - 4))
        figure.text(left + 79, y, NEW, size=d.SMALL, mono=True, bold=True)
    file(left, ROWS[1], ('…', 'epoch 3', 'epoch 3')[i], (0.6, 1, 1)[i])
    figure.arrow((middle, TOP + HEIGHT), (middle, FOUND - FILE / 2), dash='5 4')
    figure.cross(middle, TOP + HEIGHT + 20)
    figure.text(middle - 22, TOP + HEIGHT + 25, 'killed', size=d.SMALL, anchor='end')
    figure.text(middle + 12, TOP + HEIGHT + 48, 'resumes from', size=d.SMALL)
    file(left, FOUND, found)

# --- loading
HEAD = FOUND + 68
ROW = HEAD + 50
figure.headline('Loaded only if every byte is as it was saved', HEAD)
EQUAL, END = 468, d.RIGHT
w = COLUMN - 2 * PAD
file(d.MARGIN, ROW, 'epoch 3')
figure.arrow((d.MARGIN + w, ROW), (d.MARGIN + w + 32, ROW))
words = 'compute SHA-256', 'of what was read'
figure.box(d.MARGIN + w + 32, ROW - 23, 146, 46, *words, size=d.SMALL)
figure.arrow((d.MARGIN + w + 178, ROW), (EQUAL - 14, ROW))
figure.plus(EQUAL, ROW, '=')
digest = d.MARGIN + DIGEST / 2
figure.arrow((digest, ROW + FILE / 2), (digest, ROW + 44), (EQUAL, ROW + 44), (EQUAL, ROW + 14))
for side, words in ((-1, ('loaded',)), (1, ('refused; the next', 'older one is tried'))):
    y = ROW + side * 27
    figure.arrow((EQUAL + 14, ROW), (EQUAL + 40, ROW), (EQUAL + 40, y), (END - 140, y))
    figure.box(END - 140, y - 21, 140, 42, *words, size=d.SMALL)
    figure.text(EQUAL + 62, y - 8, ('yes', 'no')[side > 0], size=d.SMALL)
