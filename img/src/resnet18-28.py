"""ResNet-18 for 28x28 images, and its two kinds of residual block.

The image, 1x28x28, goes through batch norm to 1x28x28; conv 3x3, 64, no padding to 64x26x26; max
pool 3x3, stride 2 to 64x12x12; residual 64 to 64x12x12; residual 64 to 64x12x12; residual 128,
halving to 128x6x6; residual 128 to 128x6x6; residual 256, halving to 256x3x3; residual 256 to
256x3x3; global average pooling to 256; dense 10 to 10. The plain residual block: conv 3x3, batch
norm, relu, conv 3x3, batch norm, plus the input, relu. In the halving block the first convolution
has stride 2 and the shortcut is a 1x1 convolution with stride 2. 2,777,868 trainable values in 58
arrays; 3,586 running statistics.

Outputs are channels × height × width. 2,777,868 trainable values in 58 arrays.
Batch norm also keeps 3,586 running statistics: means and variances, not trained.
"""

import draw as d


def conv(inputs, outputs, side):
    """Return the sizes of a convolution's arrays: weight and bias."""
    return [outputs * inputs * side * side, outputs]


def residual(inputs, outputs):
    """Return the sizes of a residual block's arrays, with the shortcut's if it halves the image."""
    arrays = conv(inputs, outputs, 3) + conv(outputs, outputs, 3) + 4 * [outputs]  # two norms
    return arrays + (conv(inputs, outputs, 1) if inputs != outputs else [])


# A layer's name, the kind of its block, its output's shape, the sizes of its arrays.
ROWS = (
    ('batch norm', '', '1×28×28', [1, 1]),
    ('conv 3×3, 64, no padding', '', '64×26×26', conv(1, 64, 3)),
    ('max pool 3×3, stride 2', '', '64×12×12', []),
    ('residual 64', 'a', '64×12×12', residual(64, 64)),
    ('residual 64', 'a', '64×12×12', residual(64, 64)),
    ('residual 128, halving', 'b', '128×6×6', residual(64, 128)),
    ('residual 128', 'a', '128×6×6', residual(128, 128)),
    ('residual 256, halving', 'b', '256×3×3', residual(128, 256)),
    ('residual 256', 'a', '256×3×3', residual(256, 256)),
    ('global average pooling', '', '256', []),
    ('dense 10', '', '10', [256 * 10, 10]),
)
ARRAYS = [size for row in ROWS for size in row[3]]
TOTAL = sum(ARRAYS)
# Two batch norms per residual block, and one before the first convolution: a running mean and a
# running variance for each channel.
STATISTICS = 2 * (1 + 2 * (2 * 64 + 2 * 128 + 2 * 256))
assert (len(ARRAYS), TOTAL, STATISTICS) == (58, 2_777_868, 3_586)

figure = d.Figure(648, __doc__, 'ResNet-18 for images of 28×28')

LEFT, W, H = d.MARGIN, 196, 26
TOP, PITCH = 98, 40
TAG, SHAPE, VALUES = 235, 290, 401  # centres of two columns, right edge of the third

# --- the network, from top to bottom
figure.hint(SHAPE, TOP - 18, 'output')
figure.hint(VALUES, TOP - 18, 'values', anchor='end')
figure.data(LEFT, TOP, W, H, 'image')
figure.small(SHAPE, TOP + H / 2, '1×28×28')
for i, (name, kind, shape, arrays) in enumerate(ROWS, 1):
    y = TOP + i * PITCH
    figure.arrow((LEFT + W / 2, y - PITCH + H), (LEFT + W / 2, y))
    figure.box(LEFT, y, W, H, name)
    if kind:
        figure.badge(TAG, y + H / 2, kind, r=10, size=d.SMALL)
    figure.small(SHAPE, y + H / 2, shape)
    if arrays:
        figure.small(VALUES, y + H / 2, f'{sum(arrays):,}', anchor='end')

# --- the two kinds of block, side by side with equal rows
BLOCK_W, STEP = 92, 56
figure.divider(416, 28, TOP + 11 * PITCH + H)
for letter, x, shortcut, name in (('a', 431, 537, 'plain'), ('b', 556, 698, 'halving')):
    centre = x + BLOCK_W / 2
    first = ('conv 3×3', 'stride 2') if letter == 'b' else ('conv 3×3',)
    figure.badge(x + 10, 37, letter, r=10, size=d.SMALL)
    figure.text(x + 27, 42, name, bold=True)
    rows = [('input',), first, ('batch norm',), ('relu',), ('conv 3×3',), ('batch norm',), ('+',)]
    rows += [('relu',), ('output',)]
    bottom = None
    for i, lines in enumerate(rows):
        y = TOP - 18 + i * STEP
        h = 42 if len(lines) > 1 else 28
        if bottom:
            figure.arrow((centre, bottom), (centre, y - h / 2))
        if lines in (('input',), ('output',)):
            figure.data(x, y - h / 2, BLOCK_W, h, *lines)
        elif lines == ('+',):
            figure.plus(centre, y)
            plus = y
        else:
            figure.box(x, y - h / 2, BLOCK_W, h, *lines)
        bottom = y + h / 2
    start = TOP - 18
    if letter == 'a':
        figure.arrow((x + BLOCK_W, start), (shortcut, start), (shortcut, plus), (centre + 14, plus))
    else:
        middle = (start + plus) / 2
        figure.arrow((x + BLOCK_W, start), (shortcut, start), (shortcut, middle - 21))
        figure.box(shortcut - 38, middle - 21, 76, 42, 'conv 1×1', 'stride 2', size=d.SMALL)
        figure.arrow((shortcut, middle + 21), (shortcut, plus), (centre + 14, plus))
