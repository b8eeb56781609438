"""One training step with data parallelism, in six stages.

1: the batch is split into one shard per device. 2: each device runs the forward and backward pass
on its own replica of the parameters W. 3: each has a local gradient, g0 and g1. 4: an allreduce
sums them, and both devices hold g0 + g1. 5: each makes the same update, W minus lr/n times the sum.
6: the replicas are identical again, ready for the next batch.
"""

import draw as d

figure = d.Figure(646, __doc__, 'One training step on two devices, in six stages')

X, W, GAP = 236, 238, 24  # the two devices' panels
TOP, BOTTOM = 132, 618
CENTRES = (X + W / 2, X + W + GAP + W / 2)
MIDDLE = X + W + GAP / 2


# --- 1: the batch across both devices, with a shard in each
figure.stage(1, 82, 'Split the batch', 'n examples,', 'a shard each')
cell = 36
for i in range(12):
    figure.data(MIDDLE + (i - 6) * cell, 66, cell, 32)
figure.line((MIDDLE, 56), (MIDDLE, 108), dash='5 4')
for k, x in enumerate((X, X + W + GAP)):
    figure.device(x, TOP, W, BOTTOM - TOP, k)
    centre = CENTRES[k]
    figure.arrow((centre, 98), (centre, 160))
    for i in range(6):
        figure.data(centre + (i - 3) * cell, 160, cell, 32)

    # --- 2 and 3: the replica's forward and backward passes compute a gradient
    figure.arrow((centre, 192), (centre, 218))
    figure.box(centre - 58, 218, 116, 48, 'forward,', 'backward', k=k)
    figure.parameters(x + 30, 242, k=k)
    figure.arrow((x + 45, 242), (centre - 58, 242))
    figure.arrow((centre, 266), (centre, 294))
    figure.gradient(centre, 314, f'g_{k}', k, r=20)

    # --- 4: into the allreduce and out of it
    figure.arrow((centre, 334), (centre, 366))
    figure.arrow((centre, 400), (centre, 432))
    figure.rect(centre - 42, 432, 84, 38, d.WHITE, d.SOLID[k], r=19, width=2)
    figure.label(centre, 451, 'g_0 + g_1', size=16)

    # --- 5 and 6: the same update, the same parameters
    figure.arrow((centre, 470), (centre, 498))
    figure.box(centre - 107, 498, 214, 38, 'W ← W − lr/n · (g_0 + g_1)', k=k, size=15)
    figure.arrow((centre, 536), (centre, 566))
    figure.parameters(centre, 583, k=k, side=34)

figure.stage(2, 242, 'Forward, backward', 'on each replica of W,', 'at the same time')
figure.stage(3, 314, 'Local gradients', 'each from its own shard')
figure.bar(X + 20, 366, 2 * W + GAP - 40, 34, 'allreduce: sum', r=17)
figure.stage(4, 383, 'Allreduce', 'then both devices', 'hold the same sum')
figure.stage(5, 517, 'Same update', 'on each device')
figure.stage(6, 583, 'Identical again', 'ready for the next batch')
figure.line((CENTRES[0] + 17, 583), (MIDDLE - 16, 583), color=d.DATA_EDGE, dash='2 4')
figure.line((MIDDLE + 16, 583), (CENTRES[1] - 17, 583), color=d.DATA_EDGE, dash='2 4')
figure.label(MIDDLE, 583, '=', size=20, bold=True)
assert BOTTOM < figure.height - d.MARGIN and X + 2 * W + GAP == d.RIGHT
