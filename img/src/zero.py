"""Memory on each of four devices: data parallelism, ZeRO 1, ZeRO 2 and ZeRO 3.

Each device has three boxes: parameters, gradients, and the state of Adam, twice as wide. Data
parallelism: all boxes are full on every device, 16 bytes per parameter. ZeRO 1: each device keeps
only its own quarter of the state, 10 bytes. ZeRO 2: also only a quarter of the gradients, 7 bytes.
ZeRO 3, which is fully sharded data parallelism: also only a quarter of the parameters, 4 bytes.

P: parameters, g: gradients, state: Adam's two numbers per parameter. Below: bytes per
parameter on each of k = 4 devices, in single precision.
"""

import draw as d

figure = d.Figure(446, __doc__, 'The more is sharded, the less each device keeps')

WAYS = (
    ('data parallel', 0, '4 + 4 + 8 = 16'),
    ('ZeRO 1', 1, '4 + 4 + 8/k = 10'),
    ('ZeRO 2', 2, '4 + 4/k + 8/k = 7'),
    ('ZeRO 3', 3, '4/k + 4/k + 8/k = 4'),
)
BOXES = (('P', 0, 32), ('g', 37, 32), ('state', 74, 64))  # name, left edge, width
K, LEFT, PITCH, TOP, ROW, LANE = 4, 122, 153, 120, 56, 46

for k in range(K):
    y = TOP + k * ROW
    figure.device(d.MARGIN, y, d.INNER, LANE, k, name='')
    figure.name(d.MARGIN + 12, y + LANE / 2, f'device {k}', k)
for column, (way, sharded, held) in enumerate(WAYS):
    x = LEFT + column * PITCH
    figure.text(x, 80, way, bold=True)
    for i, (name, at, width) in enumerate(BOXES):
        figure.hint(x + at + width / 2, 104, name)
        for k in range(K):
            y = TOP + k * ROW + 11
            kept = (k,) if i >= len(BOXES) - sharded else range(K)
            figure.rect(x + at, y, width, LANE - 22, d.WHITE, d.DATA_EDGE, r=0, width=1)
            for part in kept:
                left, share = x + at + part * width / K, width / K
                figure.rect(left, y, share, LANE - 22, d.SOLID[k], None, r=0)
    figure.text(x, TOP + K * ROW + 14, held, size=d.SMALL)
