"""One Gluon parameter on four devices: one name, one replica and one gradient per device.

Left: the network's layers conv0, pool0, conv1, pool1, dense0, dense1; the convolutions and dense
layers have a weight and a bias. One of these parameters is shown: cnn_conv0_weight. Right:
each of the devices 0 to 3 holds two arrays for it, data and grad, both of shape (20, 1, 3, 3). The
data is the same on all devices. The gradients are different: each comes from its own shard.

In the network, a parameter has one name. Each device holds two arrays for it:
its own replica of the values, and the gradient computed from its own shard.
"""

import draw as d

NAME, SHAPE = 'cnn_conv0_weight', '(20, 1, 3, 3)'
LAYERS = ('conv0', 'pool0', 'conv1', 'pool1', 'dense0', 'dense1')

figure = d.Figure(586, __doc__, 'One name, one replica and one gradient per device')

TOP, LANE_H, GAP = 114, 80, 24
BOTTOM = TOP + 4 * LANE_H + 3 * GAP
MIDDLE = (TOP + BOTTOM) / 2
PARAMETER = 264  # centre of the parameter's box
LANE_X = 396
ARRAY_W, ARRAY_H = 154, 42
DATA_X, GRAD_X = LANE_X + 12, d.RIGHT - 12 - ARRAY_W

# --- the network, from top to bottom; only some layers have parameters
figure.hint(d.MARGIN + 48, TOP - 18, 'the network')
SIDE = 24  # of the square for a parameter
y = TOP
for name in LAYERS:
    h = 36 if name.startswith('pool') else 50
    if y > TOP:
        figure.arrow((d.MARGIN + 48, y - 24), (d.MARGIN + 48, y))
    figure.box(d.MARGIN, y, 96, h, name, mono=True)
    if h == 50:
        for row, letter in enumerate('Wb'):
            picked = name == 'conv0' and letter == 'W'
            x, top = d.MARGIN + 104, y + row * (SIDE + 2)
            figure.rect(x, top, SIDE, SIDE, d.INK if picked else d.WHITE, d.INK, r=0, width=2)
            style = {'size': d.SMALL, 'bold': True, 'fill': d.WHITE if picked else d.INK}
            figure.label(x + SIDE / 2, top + SIDE / 2, letter, **style)
    y += h + 24
assert y - 24 == BOTTOM

# --- the parameter, between its layer and the devices that hold its arrays
level = TOP + SIDE / 2
figure.arrow((d.MARGIN + 104 + SIDE, level), (PARAMETER, level), (PARAMETER, MIDDLE - 34))
figure.rect(PARAMETER - 77, MIDDLE - 34, 154, 68, d.WHITE, d.INK, r=0, width=2)
figure.label(PARAMETER, MIDDLE - 12, NAME, bold=True, mono=True)
figure.hint(PARAMETER, MIDDLE + 14, SHAPE, mono=True)
figure.hint(PARAMETER, MIDDLE + 54, 'one parameter')

# --- the devices: square corners for parameters, round ones for gradients, as in every figure
figure.hint(DATA_X + ARRAY_W / 2, TOP - 18, 'the same on all')
figure.hint(GRAD_X + ARRAY_W / 2, TOP - 27, 'different:', 'each from its own shard')
for k in range(4):
    y = TOP + k * (LANE_H + GAP)
    figure.device(LANE_X, y, d.RIGHT - LANE_X, LANE_H, k)
    figure.curve((PARAMETER + 77, MIDDLE), (LANE_X, y + LANE_H / 2), color=d.LINE)
    for x, name, r in ((DATA_X, 'data', 0), (GRAD_X, 'grad', ARRAY_H / 2)):
        figure.rect(x, y + 29, ARRAY_W, ARRAY_H, d.WHITE, d.SOLID[k], r=r, width=2)
        figure.label(x + ARRAY_W / 2, y + 41, name, bold=True, mono=True)
        figure.small(x + ARRAY_W / 2, y + 59, SHAPE, mono=True)
        if k:  # how this array compares with the one above it
            centre = x + ARRAY_W / 2
            figure.line((centre, y - GAP - 9), (centre, y - GAP), color=d.DATA_EDGE, dash='2 4')
            figure.line((centre, y), (centre, y + 29), color=d.DATA_EDGE, dash='2 4')
            figure.label(centre, y - GAP / 2, '≠' if r else '=', size=18, bold=True)
