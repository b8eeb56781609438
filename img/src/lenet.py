"""LeNet: the network of chapter 1, its shapes and its parameters.

Input 1x28x28; convolution 3x3 with 20 channels gives 20x26x26; relu and average pooling 2 gives
20x13x13; convolution 5x5 with 50 channels gives 50x9x9; relu and average pooling 2 gives 50x4x4;
flattened to 800; dense 128 with relu; dense 10. Values per parameter array: W1 180, b1 20, W2
25,000, b2 50, W3 102,400, b3 128, W4 1,280, b4 10; 129,068 in total.

8 parameter arrays, 129,068 values in all. W3 alone holds 79% of them.
"""

from itertools import pairwise
from math import prod

import draw as d

PARAMETERS = {'W1': (20, 1, 3, 3), 'b1': (20,), 'W2': (50, 20, 5, 5), 'b2': (50,)}
PARAMETERS |= {'W3': (800, 128), 'b3': (128,), 'W4': (128, 10), 'b4': (10,)}
COUNT = {name: prod(shape) for name, shape in PARAMETERS.items()}
TOTAL = sum(COUNT.values())
assert TOTAL == 129_068 and f'{COUNT["W3"] / TOTAL:.0%}' == '79%'

figure = d.Figure(448, __doc__)

MID = 144  # the height that everything is centred on
# Centre of the drawing, side in pixels (2 per image pixel), number of channels drawn, shape.
VOLUMES = (
    (56, 56, 1, '1×28×28'),
    (168, 52, 4, '20×26×26'),
    (270, 26, 4, '20×13×13'),
    (368, 18, 6, '50×9×9'),
    (458, 9, 6, '50×4×4'),
)
VECTORS = ((544, 100, '800'), (632, 60, '128'), (716, 24, '10'))
OPERATIONS = ('conv 3×3,', '20 channels'), ('relu,', 'avg pool 2'), ('conv 5×5,', '50 channels')
OPERATIONS += ('relu,', 'avg pool 2'), ('flatten',), ('dense 128,', 'relu'), ('dense 10',)
HOLDS = {0: ('W1', 'b1'), 2: ('W2', 'b2'), 5: ('W3', 'b3'), 6: ('W4', 'b4')}

edges = []
for centre, side, sheets, shape in VOLUMES:
    spread = 4 * (sheets - 1)
    left, top = centre - (side + spread) / 2, MID - (side + spread) / 2
    for i in range(sheets):
        figure.rect(left + 4 * i, top + 4 * i, side, side, d.DATA, d.DATA_EDGE, r=0, width=1)
    edges.append((left, left + side + spread))
    figure.small(centre, 74, shape)
for centre, height, shape in VECTORS:
    figure.rect(centre - 4, MID - height / 2, 8, height, d.DATA, d.DATA_EDGE, r=0, width=1)
    edges.append((centre - 4, centre + 4))
    figure.small(centre, 74, shape)

for i, ((_, right), (left, _)) in enumerate(pairwise(edges)):
    middle = (right + left) / 2
    figure.arrow((right + 6, MID), (left - 5, MID))
    figure.line((middle, MID + 8), (middle, 206), color=d.DATA_EDGE, width=1, dash='2 4')
    for j, line in enumerate(OPERATIONS[i]):
        figure.small(middle, 217 + j * 18, line)
    if i in HOLDS:
        weight, bias = HOLDS[i]
        w = 100 if len(PARAMETERS[weight]) == 4 else 76
        figure.rect(middle - w / 2, 256, w, 68, d.WHITE, d.INK, r=0, width=2)
        figure.label(middle, 274, weight, bold=True)
        figure.hint(middle, 292, '×'.join(map(str, PARAMETERS[weight])))
        figure.small(middle, 310, f'{COUNT[weight]:,}')
        figure.rect(middle - w / 2, 334, w, 50, d.WHITE, d.INK, r=0, width=2)
        figure.label(middle, 350, bias, bold=True)
        figure.small(middle, 368, f'{COUNT[bias]:,}')

for y, name in ((292, 'shape'), (310, 'values'), (368, 'values')):  # right of W2 and b2
    figure.hint(381, y, name, anchor='start')
figure.headline('LeNet: shapes for one image, and the parameters')
