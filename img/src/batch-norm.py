"""Batch normalization on two devices: BatchNorm and SyncBatchNorm.

Above, BatchNorm: each device computes its own shard's mean and variance and normalizes the shard
with them; nothing is exchanged. Below, SyncBatchNorm: the devices exchange their means, so both
compute the whole batch's mean and variance and normalize their shards with them. This is exact if
the shards are equally large.

With BatchNorm the result depends on how the batch is split.
With SyncBatchNorm it does not, as long as the shards are equally large.
"""

import draw as d

figure = d.Figure(684, __doc__)

LANE_H, GAP, H = 92, 36, 40
SHARD, SHARD_W = 116, 76
FIRST, SECOND, STATISTICS_W = 224, 364, 112  # two boxes of statistics, or one across both
NORMALIZE, NORMALIZE_W = 508, 88
RESULT, RESULT_W = 628, 94


def lanes(top, letter, name, what):
    """Draw a panel's labels and devices; return the y positions of the two rows."""
    figure.case(top - 40, letter, name)
    figure.text(d.MARGIN + 38, top - 13, what, fill=d.MUTED)
    for k in range(2):
        figure.device(d.MARGIN, top + k * (LANE_H + GAP), d.INNER, LANE_H, k)
    # Mirrored: the space between the rows is for the exchange.
    return top + LANE_H - 34, top + LANE_H + GAP + 34


def row(k, y):
    """Draw the parts that both panels share: the shard before and after normalization."""
    figure.data(SHARD, y - H / 2, SHARD_W, H, f'shard {k}')
    figure.arrow((SHARD + SHARD_W, y), (FIRST, y))
    figure.arrow((SECOND + STATISTICS_W, y), (NORMALIZE, y))
    figure.box(NORMALIZE, y - H / 2, NORMALIZE_W, H, 'normalize', k=k)
    figure.arrow((NORMALIZE + NORMALIZE_W, y), (RESULT, y))
    figure.data(RESULT, y - H / 2, RESULT_W, H, 'normalized')
    side = (-1, 1)[k]
    around = y + side * 38
    edge = y + side * H / 2
    x, end = SHARD + SHARD_W / 2, NORMALIZE + NORMALIZE_W / 2
    figure.arrow((x, edge), (x, around), (end, around), (end, edge))


# --- above: two devices that do not communicate
TOP = 80
rows = lanes(TOP, 'A', 'BatchNorm', "each device its own shard's mean and variance")
for k, y in enumerate(rows):
    row(k, y)
    width = SECOND + STATISTICS_W - FIRST
    figure.box(FIRST, y - H / 2, width, H, f'mean_{k} and var_{k} of shard {k}', k=k)
figure.hint((FIRST + SECOND + STATISTICS_W) / 2, TOP + LANE_H + GAP / 2, 'nothing is exchanged')

# --- below: both devices exchange their means and compute the same mean and variance. MXNet weights
# every device's mean equally, whatever its shard's size, hence the end of the caption.
TOP = 380
words = "the devices exchange their means, so all use the whole batch's mean and variance"
rows = lanes(TOP, 'B', 'SyncBatchNorm', words)
for k, y in enumerate(rows):
    row(k, y)
    figure.box(FIRST, y - H / 2, STATISTICS_W, H, 'means of', 'x and x²', k=k, size=d.SMALL)
    figure.arrow((FIRST + STATISTICS_W, y), (SECOND, y))
    words = 'mean and var', 'of the batch'
    figure.box(SECOND, y - H / 2, STATISTICS_W, H, *words, k=k, size=d.SMALL)
centre = FIRST + STATISTICS_W / 2
figure.arrow((centre - 14, rows[0] + H / 2), (centre - 14, rows[1] - H / 2), width=2)
figure.arrow((centre + 14, rows[1] - H / 2), (centre + 14, rows[0] + H / 2), width=2)
middle = TOP + LANE_H + GAP / 2
figure.small(centre - 26, middle, 'means of shard 0', anchor='end')
figure.small(centre + 26, middle, 'means of shard 1', anchor='start')
