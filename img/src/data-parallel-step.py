"""Draw one training step on two devices, in six numbered stages."""

import draw as d

figure = d.Figure(
    610,
    'One training step with data parallelism, in six stages',
    '1: the batch is split, a shard to each device. 2: each device runs forward and backward on '
    'its own replica of the parameters W. 3: each has a local gradient, g0 and g1. 4: allreduce '
    'sums them, and both devices hold g0 + g1. 5: each makes the same update, W minus lr/n times '
    'the sum. 6: the replicas are identical again, ready for the next batch.',
)

X, W, GAP = 236, 238, 24  # the two devices' panels
TOP, BOTTOM = 96, 582
CENTRES = (X + W / 2, X + W + GAP + W / 2)
MIDDLE = X + W + GAP / 2


# --- 1: the batch lies over both devices, its shards in them
figure.stage(1, 46, 'Split the batch', 'n examples,', 'a shard each')
cell = 36
for i in range(12):
    figure.data(MIDDLE + (i - 6) * cell, 30, cell, 32)
figure.line((MIDDLE, 20), (MIDDLE, 72), dash='5 4')
for k, x in enumerate((X, X + W + GAP)):
    figure.device(x, TOP, W, BOTTOM - TOP, k)
    centre = CENTRES[k]
    figure.arrow((centre, 62), (centre, 124))
    for i in range(6):
        figure.data(centre + (i - 3) * cell, 124, cell, 32)

    # --- 2 and 3: the replica's forward and backward end in a gradient
    figure.arrow((centre, 156), (centre, 182))
    figure.box(centre - 58, 182, 116, 48, 'forward,', 'backward', k=k)
    figure.parameters(x + 30, 206, k=k)
    figure.arrow((x + 45, 206), (centre - 58, 206))
    figure.arrow((centre, 230), (centre, 258))
    figure.gradient(centre, 278, f'g_{k}', k, r=20)

    # --- 4: into the allreduce and out of it
    figure.arrow((centre, 298), (centre, 330))
    figure.arrow((centre, 364), (centre, 396))
    figure.rect(centre - 42, 396, 84, 38, d.WHITE, d.SOLID[k], r=19, width=2)
    figure.label(centre, 415, 'g_0 + g_1', size=16)

    # --- 5 and 6: the same update, the same parameters
    figure.arrow((centre, 434), (centre, 462))
    figure.box(centre - 107, 462, 214, 38, 'W ← W − lr/n · (g_0 + g_1)', k=k, size=15)
    figure.arrow((centre, 500), (centre, 530))
    figure.parameters(centre, 547, k=k, side=34)

figure.stage(2, 206, 'Forward, backward', 'on each replica of W,', 'at the same time')
figure.stage(3, 278, 'Local gradients', 'each from its own shard')
figure.rect(X + 20, 330, 2 * W + GAP - 40, 34, d.LINE, None, r=17)
figure.label(MIDDLE, 347, 'allreduce: sum', fill=d.WHITE, bold=True)
figure.stage(4, 347, 'Allreduce', 'then both devices', 'hold the same sum')
figure.stage(5, 481, 'Same update', 'on each device')
figure.stage(6, 547, 'Identical again', 'ready for the next batch')
figure.line((CENTRES[0] + 17, 547), (MIDDLE - 16, 547), color=d.DATA_EDGE, dash='2 4')
figure.line((MIDDLE + 16, 547), (CENTRES[1] - 17, 547), color=d.DATA_EDGE, dash='2 4')
figure.label(MIDDLE, 547, '=', size=20, bold=True)
assert BOTTOM < figure.height - d.MARGIN and X + 2 * W + GAP == d.WIDTH - d.MARGIN

figure.save(__file__)
