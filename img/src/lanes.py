"""Draw the parts that all allreduce figures share: a lane per device, its numbers, the steps.

The numbers look the same in all of them: white marks values still in use, a bold edge those to be
sent next, faded those that are out of date, and dark a finished sum.
"""

import draw as d

CELL_W, CELL_H = 30, 28
LIVE, NEXT, OLD, DONE = 'live', 'next', 'old', 'done'


def lane(figure, y, h, k, name=None, x=d.MARGIN, w=d.INNER, color=None):
    """Draw the lane of device `k` with its name on the left; return the y of its centre line."""
    color = k if color is None else color
    figure.device(x, y, w, h, color, name='')
    figure.name(x + 12, y + h / 2, name or f'device {k}', color)
    return y + h / 2


def cell(figure, cx, cy, value, k, state=LIVE, w=CELL_W, h=CELL_H):
    fill, edge, width, dash, ink = {
        LIVE: (d.WHITE, d.SOLID[k], 1.25, None, {}),
        NEXT: (d.WHITE, d.SHADE[k], 2.5, None, {'bold': True}),
        OLD: (d.TINT[k], d.DATA_EDGE, 1.25, '2 3', {'fill': d.MUTED}),
        DONE: (d.SHADE[k], d.TINT[k], 1.25, None, {'fill': d.WHITE, 'bold': True}),
    }[state]
    figure.rect(cx - w / 2, cy - h / 2, w, h, fill, edge, r=0, width=width, dash=dash)
    figure.label(cx, cy, str(value), size=d.NORMAL if len(str(value)) < 3 else d.SMALL, **ink)


def cells(figure, xs, rows, values, look, name_y):
    """Draw the slices `values[k][j]` of all devices, styled by `look(k, j)`, and their numbers."""
    for j, x in enumerate(xs):
        figure.hint(x, name_y, str(j))
        for k, y in enumerate(rows):
            cell(figure, x, y, values[k][j], k, look(k, j))


def show(figure, x, rows, values, total):
    """Draw one number per device, dark if it is the total; draw nothing where it is None."""
    for k, value in enumerate(values):
        if value:
            cell(figure, x, rows[k], value, k, DONE if value == total else LIVE)


def wait(figure, x0, x1, y):
    figure.line((x0 - 10, y), (x1 + 10, y), color=d.MUTED, dash='2 4')


def send_and_add(figure, x0, x1, source, target):
    """Draw a message that is added in the target lane, between cells at x0 and x1."""
    left, right = x0 + CELL_W / 2, x1 - CELL_W / 2
    node, r = (right - 30, target), 9
    figure.line((left, target), node)
    figure.arrow((left, source), d.towards(node, (left, source), r))
    figure.arrow(node, (right, target))
    figure.circle(*node, r, d.WHITE)
    for a, b in ((4.5, 0), (0, 4.5)):
        figure.line((node[0] - a, node[1] - b), (node[0] + a, node[1] + b))


def send_and_keep(figure, x0, x1, source, target):
    """Draw a message from one lane to another; the number also stays on the source."""
    left, right = x0 + CELL_W / 2, x1 - CELL_W / 2
    figure.line((left, source), (right, source))
    figure.arrow((left, source), (right, target))


def head(figure, cx, y, name, what=''):
    figure.label(cx, y, name, size=d.LARGE, bold=True)
    if what:
        figure.hint(cx, y + 23, what)


def legend(figure, y, xs, live, sent):
    """Draw the legend for the looks of a number; `live` and `sent` are its labels."""
    words = (9, LIVE, live), (9, NEXT, sent), (9, OLD, 'out of date'), (40, DONE, 'finished sum')
    for x, (value, look, meaning) in zip(xs, words):
        cell(figure, x, y, value, 2, look)
        figure.small(x + CELL_W / 2 + 8, y, meaning, anchor='start')


def table(k):
    """Return the arrays before an allreduce: one row per device, one column per slice."""
    return [[(i + 1) * (j + 1) for j in range(k)] for i in range(k)]
