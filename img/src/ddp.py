"""DistributedDataParallel: a process for each device, and gradients that travel between them.

Two processes, rank 0 and rank 1, each with its own Python, device, parameters and shard of the
batch. Each computes gradients from its shard and its parameters. In a training step, only the
gradients travel between the processes.

Each rank computes gradients on its shard; only the gradients travel.
"""

import draw as d

figure = d.Figure(278, __doc__, 'Two processes, which exchange gradients')

# Mirrored, so that the gradients face each other.
PANEL, TOP, HEIGHT = 300, 62, 160
DEVICE, DEVICE_H = TOP + 38, 110
ROW = DEVICE + 66
for k in range(2):
    x = (d.MARGIN, d.RIGHT - PANEL)[k]
    figure.panel(x, TOP, PANEL, HEIGHT)
    figure.text(x + 12, TOP + 25, f'rank {k}', bold=True)
    style = {'size': d.SMALL, 'fill': d.MUTED, 'anchor': 'end'}
    figure.text(x + PANEL - 12, TOP + 25, 'a process with its own Python', **style)
    figure.device(x + 12, DEVICE, PANEL - 24, DEVICE_H, k)
    side = (1, -1)[k]
    outer = x + (0, PANEL)[k]
    shard, w, g = outer + side * 64, outer + side * 158, outer + side * 252
    figure.data(shard - 36, ROW - 18, 72, 36, f'shard {k}')
    figure.parameters(w, ROW, k=k, side=34)
    figure.gradient(g, ROW, f'g_{k}', k, r=20)
    figure.arrow((shard + side * 36, ROW), (w - side * 17, ROW))
    figure.arrow((w + side * 17, ROW), (g - side * 20, ROW))
    figure.small(w, ROW + 32, 'parameters')
inner = d.MARGIN + 252 + 20, d.RIGHT - 252 - 20
figure.arrow((inner[0], ROW), (inner[1], ROW), both=True, width=2)
figure.label(d.WIDTH / 2, ROW - 16, 'gradients', bold=True)
