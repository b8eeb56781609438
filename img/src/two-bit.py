"""Two steps of 2-bit compression, with the residual.

Eight numbers of a gradient, threshold 0.5. Step 1: the gradient is 0.3, -0.7, 0.1, 0.5, -0.2, 1.2,
-0.4, 0.0. A value of 0.5 or more is sent as +0.5, one of -0.5 or less as -0.5, all others as 0, in
two bits each: 0, -0.5, 0, +0.5, 0, +0.5, 0, 0. The residual, gradient minus sent, is kept: 0.3,
-0.2, 0.1, 0.0, -0.2, 0.7, -0.4, 0.0. Step 2: it is added to the next gradient, 0.3, -0.1, 0.2, 0.1,
-0.4, 0.1, 0.2, 0.6; the sum is 0.6, -0.3, 0.3, 0.1, -0.6, 0.8, -0.2, 0.6; +0.5, 0, 0, 0, -0.5,
+0.5, 0, +0.5 are sent, and 0.1, -0.3, 0.3, 0.1, -0.1, 0.3, -0.2, 0.1 are kept.

Threshold 0.5: 0.5 or more is sent as +0.5, −0.5 or less as −0.5, all else as 0. Two bits are
sent instead of 32; the residual, the part not sent, is added to the next gradient.
"""

import draw as d

# In tenths, so that sums are exact.
THRESHOLD = 5
GRADIENTS = ((3, -7, 1, 5, -2, 12, -4, 0), (3, -1, 2, 1, -4, 1, 2, 6))
BITS = {THRESHOLD: '11', -THRESHOLD: '10', 0: '00'}  # as MXNet writes them


def send(value):
    """Return the value that is sent: the threshold with the sign of `value`, or 0."""
    return THRESHOLD if value >= THRESHOLD else -THRESHOLD if value <= -THRESHOLD else 0


def words(tenths):
    return f'{tenths / 10:.1f}'.replace('-', '−')


figure = d.Figure(560, __doc__, 'Two bits for each number; the rest is kept for later')
START, CELL, ROW = 152, 70, 35
END = START + len(GRADIENTS[0]) * CELL


def row(y, name, values, kept=False):
    figure.label(d.MARGIN, y, name, anchor='start')
    for i, value in enumerate(values):
        fill, edge = (d.DATA, d.DATA_EDGE) if kept else (d.WHITE, d.SOLID[0])
        figure.rect(START + i * CELL + 3, y - 14, CELL - 6, 28, fill, edge, r=0)
        figure.label(START + (i + 0.5) * CELL, y, words(value))


def sent_row(y, values):
    figure.name(d.MARGIN, y - 10, 'sent')
    figure.hint(d.MARGIN, y + 11, 'two bits each', anchor='start')
    for i, value in enumerate(values):
        fill = d.LINE if value else d.WHITE
        style = {'fill': d.WHITE, 'bold': True} if value else {'fill': d.MUTED}
        centre = START + (i + 0.5) * CELL
        figure.rect(START + i * CELL + 3, y - 23, CELL - 6, 46, fill, d.LINE, r=0)
        figure.label(centre, y - 10, ('+' if value > 0 else '') + words(value), **style)
        figure.small(centre, y + 12, BITS[value], mono=True, **style)


y = 80
residual, before = None, None  # and the y of its row in the step before
for step, gradient in enumerate(GRADIENTS):
    figure.text(d.MARGIN, y, f'Step {step + 1}', bold=True)
    y += 26
    row(y, 'gradient', gradient)
    total = gradient
    if residual:
        y += ROW
        row(y, '+ residual', residual, kept=True)
        turn = END + 14
        figure.arrow((END - 3, before), (turn, before), (turn, y), (END - 3, y))
        total = [a + b for a, b in zip(gradient, residual)]
        y += ROW
        row(y, '= sum', total)
    sent = [send(value) for value in total]
    y += 47
    sent_row(y, sent)
    residual = [a - b for a, b in zip(total, sent)]
    y += 47
    row(y, 'residual', residual, kept=True)
    before = y
    y += 52
