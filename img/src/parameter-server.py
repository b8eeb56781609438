"""A parameter server: scheduler, server and two workers.

Four processes, each on a machine of its own, joined only by the network. Left and right: worker 0
and worker 1; each has a device with a replica of the parameters W and its shard of the joint batch,
from which it computes a gradient, g0 and g1. In the middle: the server. Both workers push their
gradients to it; it sums them, updates its parameters W, and both workers pull these into their
replicas. Below: the scheduler. Dotted lines go to it from the server and from both workers, which
ask it for the list of processes. No gradient passes through it.

Each grey frame is a process; only the network connects them. All processes register with
the scheduler, but no gradient and no parameter passes through it.
"""

import draw as d

figure = d.Figure(528, __doc__, 'Workers compute, the server keeps the parameters')

# --- the frames of the four processes; the workers are mirrored, so both face the server
PANEL, SERVER = 242, 116
TOP, HEIGHT = 62, 274
GAP = (d.INNER - 2 * PANEL - SERVER) / 2
CENTRE = d.WIDTH / 2
PULL, PUSH = TOP + 108, TOP + 206  # the rows for pull and push

left = CENTRE - SERVER / 2
figure.rect(left, TOP, SERVER, HEIGHT, d.DATA, d.DATA_EDGE, r=9)
figure.text(CENTRE, TOP + 25, 'server', bold=True, anchor='middle')
figure.text(CENTRE, TOP + 45, 'machine B', size=d.SMALL, fill=d.MUTED, anchor='middle')
figure.small(CENTRE, PULL - 32, 'parameters')
figure.parameters(CENTRE, PULL, side=38)
figure.box(CENTRE - 40, (PULL + PUSH) / 2 - 15, 80, 30, 'update')
figure.arrow((CENTRE, PUSH - 14), (CENTRE, (PULL + PUSH) / 2 + 15))
figure.arrow((CENTRE, (PULL + PUSH) / 2 - 15), (CENTRE, PULL + 19))
figure.plus(CENTRE, PUSH)
figure.small(CENTRE, PUSH + 36, 'sum')

for k in range(2):
    x, side = (d.MARGIN, d.RIGHT - PANEL)[k], (1, -1)[k]
    figure.panel(x, TOP, PANEL, HEIGHT)
    figure.text(x + 14, TOP + 25, f'worker {k}', bold=True)
    machine = f'machine {"AC"[k]}'
    figure.text(x + PANEL - 14, TOP + 25, machine, size=d.SMALL, fill=d.MUTED, anchor='end')
    figure.device(x + 12, TOP + 38, PANEL - 24, HEIGHT - 50, k, name='device')
    outer = x + (0, PANEL)[k]
    shard, w = outer + side * 64, outer + side * 188
    figure.small(shard, PULL, 'replica of the', 'parameters')
    figure.parameters(w, PULL, k=k, side=38)
    figure.data(shard - 38, PUSH - 22, 76, 44, f'shard {k}')
    figure.small(shard, PUSH + 36, 'of the batch')
    figure.gradient(w, PUSH, f'g_{k}', k, r=21)
    figure.arrow((w, PULL + 19), (w, PUSH - 21))
    figure.arrow((shard + side * 38, PUSH), (w - side * 21, PUSH))
    for y, name in ((PULL, 'pull'), (PUSH, 'push')):  # written across the network
        middle = outer + side * (PANEL + GAP / 2)
        figure.small(middle, y - 14, name, bold=True)
    figure.arrow((CENTRE - side * 19, PULL), (w + side * 19, PULL), width=2)
    figure.arrow((w + side * 21, PUSH), (CENTRE - side * 14, PUSH), width=2)

# --- the scheduler
BOTTOM = TOP + HEIGHT
ROW, W, H = BOTTOM + 68, 216, 54
figure.panel(CENTRE - W / 2, ROW - H / 2, W, H)
figure.label(CENTRE, ROW - 10, 'scheduler', bold=True)
figure.small(CENTRE, ROW + 11, 'knows who is there')
DOTS = {'color': d.MUTED, 'width': 1.25, 'dash': '2 4'}
figure.line((CENTRE, BOTTOM), (CENTRE, ROW - H / 2), **DOTS)
for side, x in ((1, d.MARGIN + 60), (-1, d.RIGHT - 60)):
    figure.line((x, BOTTOM), (x, ROW), (CENTRE - side * W / 2, ROW), **DOTS)
    middle = (x + CENTRE - side * W / 2) / 2
    figure.hint(middle + side * 4, ROW - 14, 'Who is there?')
