"""Draw the grid that the three split-network figures share: four layers across, two devices down.

The grid is the same in all three, so the only visible difference is where the network is cut.
"""

import draw as d

X = (134, 276, 418, 560)  # left edges of the four layers
W, H = 96, 44  # of a layer
END = 704  # centre of the box after the last layer
LANE_X, LANE_H, GAP = 118, 94, 44  # a device's panel, and the space between the two
BATCH_W = 70


def lanes(figure, top, gap=GAP):
    """Draw both devices' panels; return the y positions of the two rows of layers."""
    tops = (top, top + LANE_H + gap)
    for k, y in enumerate(tops):
        figure.device(LANE_X, y, d.RIGHT - LANE_X, LANE_H, k)
    return tuple(y + 57 for y in tops)


def layer(figure, i, y, k, *lines):
    figure.box(X[i], y - H / 2, W, H, *(lines or (f'layer {i + 1}',)), k=k)


def there_and_back(figure, i, y):
    """Draw the arrows after layer `i`: forward above, backward (dashed) below."""
    end = X[i + 1] if i < 3 else END - 18
    figure.arrow((X[i] + W, y - 9), (end, y - 9))
    figure.arrow((end, y + 9), (X[i] + W, y + 9), dash='5 4')
