"""Who waits for whom: MXNet, CUDA GPUs, and stand-ins in PyTorch.

Three timelines of the same two training steps on two devices, schematic. In all three, both devices
compute forward and backward at the same time, then the gradients are summed and both update. A,
MXNet: Python writes the operators of both steps into the queues and is far ahead; it waits only for
the results. B, CUDA GPUs: Python writes kernels into the queues; in backward() it waits until the
kernels are queued; it is still ahead. C, stand-ins in PyTorch: Python hands each thread its shard,
waits for both, sums, hands out the updates, and waits; it is never ahead. Between two operators, a
thread holds the interpreter lock for a moment.

In all three, both devices compute at the same time; what differs is how far Python is ahead.
C: between operators (grey) the threads pass the interpreter lock to and fro in microseconds;
inside an operator (C++) they need none. Not to scale; the shards are on the devices already.
"""

import draw as d

figure = d.Figure(780, __doc__)

START, END = 104, d.RIGHT
WORDS = 262  # where the words beside a panel's name begin
LANE, GAP, SPACE = 26, 6, 36  # a lane, the gap between devices, and the space above them
COMPUTE, SUM, UPDATE = 236, 26, 20
BREAK = 4  # between what Python writes for one step and for the next


def python(x, y, *parts):
    """Draw what Python does from `x` on: parts are (width, 'works', 'waits' or 'sums')."""
    for width, what in parts:
        fill = {'works': d.DATA_EDGE, 'waits': d.WHITE, 'sums': d.LINE}[what]
        edge = d.LINE if what == 'sums' else d.DATA_EDGE
        figure.rect(x, y, width, LANE, fill, edge, r=0, width=1)
        x += width
    return x


def device(k, x, y, name, locks=False):
    figure.part(x, y, COMPUTE, LANE, k)
    if locks:
        for i in (1, 2, 3, 6, 7, 8):
            # never both at the same time: one has the lock, the other has not
            figure.rect(x + COMPUTE * i / 9 + 5 * k - 5, y, 4, LANE, d.DATA_EDGE, None, r=0)
    figure.label(x + COMPUTE / 2, y + LANE / 2, name)


def panel(top, letter, name, names, what):
    figure.case(top, letter, name)
    figure.text(WORDS, top + 5, what, fill=d.MUTED)
    lane = top + 48
    first = lane + LANE + SPACE
    tops = (lane, first, first + LANE + GAP)
    figure.name(d.MARGIN, lane + LANE / 2, 'Python')
    for k in range(2):
        figure.name(d.MARGIN, tops[k + 1] + LANE / 2, names[k], k, mono=True)
    return tops


def lead(x0, x1, y, words):
    """Say between the lanes how far ahead of the devices Python wrote the second step."""
    figure.moment(x0, y - SPACE, y - 4)
    figure.moment(x1, y - 18, y)
    figure.arrow((x1 - 2, y - 10), (x0 + 2, y - 10), both=True)
    figure.small((x0 + x1) / 2, y - 22, words, bold=True)


def ahead(lanes, writes, words, where, said):
    """Draw in `lanes` that Python writes both steps, then waits; `said` is a note at `where`."""
    lane, *rows = lanes
    step = sum(width for width, _ in writes)
    second = START + step + BREAK
    x = START + 5
    for i in range(2):
        # the second device's work is written after the first's; later, both are long written
        late = step * 0.4 if i == 0 else 0
        end = x + COMPUTE + late
        for k in range(2):
            device(k, x + late * k, rows[k], f'step {i + 1}')
            figure.solid(end + SUM, rows[k], UPDATE, LANE, k)
        figure.bar(end, rows[0], SUM, 2 * LANE + GAP)
        figure.exchange(end + SUM / 2, rows[0] + 10, rows[1] + LANE - 10)
        if i == 0:
            lead(second, end + SUM + UPDATE, rows[0], words)
        x = end + SUM + UPDATE
    python(START, lane, *writes)
    written = python(second, lane, *writes)
    python(written, lane, (x - written, 'waits'))
    figure.label((written + x) / 2, lane + LANE / 2, 'waits for the results')
    figure.flag(START + where, lane, said, 'start')


words = 'Python only writes operators into queues; threads compute.'
lanes = panel(38, 'A', "MXNet's engine", ('cpu(0)', 'cpu(1)'), words)
ahead(lanes, ((25, 'works'),), 'far ahead', 12, 'writes step 1, then step 2')

words = "Python writes kernels into each GPU's own queue (stream)."
lanes = panel(244, 'B', 'CUDA GPUs', ('cuda:0', 'cuda:1'), words)
writes = ((8, 'works'), (14, 'waits'), (8, 'works'), (14, 'waits'), (10, 'works'))
ahead(lanes, writes, 'ahead', 15, 'in backward(): waits until the kernels are queued')

# --- the stand-ins: Python waits after everything that it hands out
words = 'Python hands each thread its shard, then waits for both.'
lane, *rows = panel(450, 'C', 'Stand-ins in PyTorch', ('cpu:0', 'cpu:1'), words)
HAND = 8
x = START
for i in range(2):
    if i:
        figure.arrow((x + HAND / 2, lane + LANE), (x + HAND / 2, rows[0]))
        y = rows[0] - SPACE / 2
        figure.small(x - 8, y, 'not ahead', bold=True, anchor='end')
    for k in range(2):
        device(k, x + (1 + k) * HAND / 2, rows[k], f'step {i + 1}', locks=True)
    summed = x + HAND + COMPUTE
    computes = (HAND, 'works'), (COMPUTE, 'waits'), (SUM, 'sums')
    end = python(x, lane, *computes, (HAND, 'works'), (UPDATE, 'waits'))
    for k in range(2):
        figure.solid(summed + SUM + (1 + k) * HAND / 2, rows[k], UPDATE, LANE, k)
    figure.label(x + HAND + COMPUTE / 2, lane + LANE / 2, 'waits')
    if i == 0:
        figure.flag(x + HAND / 2, lane, 'hands out', 'start')
    figure.flag(summed + SUM / 2, lane, 'sums', 'end')
    x = end

# --- time, and what is what
AXIS = rows[1] + LANE + 22
figure.time_axis(START, AXIS)
x, y = d.MARGIN, AXIS + 34
for fills, words, width in (
    ((d.DATA_EDGE,), 'Python works', 88),
    ((d.WHITE,), 'Python waits', 84),
    (d.TINT[:2], 'forward and backward', 147),
    ((d.LINE,), 'sum', 30),
    (d.SOLID[:2], 'update', 46),
):
    for k, fill in enumerate(fills):
        edge = d.SOLID[k] if len(fills) == 2 else d.LINE if fill == d.LINE else d.DATA_EDGE
        figure.rect(x, y - 8, 16, 16, fill, edge, r=0, width=1)
        x += 20
    figure.small(x + 4, y, words, anchor='start')
    x += 4 + width + 38
