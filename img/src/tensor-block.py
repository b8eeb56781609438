"""A transformer block on two ranks: attention by heads, MLP by features.

Two ranks, one above the other. From left to right on each: norm; q, k and v for two of the four
heads; attention with these heads; its rows of the output layer. Then a bar across both ranks: an
allreduce in the forward pass. Again norm; half of the features of the MLP, and the matching rows of
its second layer; and a second such bar. Two hollow bars, before q, k, v and before the MLP, are
allreduces in the backward pass.

The inputs and outputs of attention and of the MLP are the same on both ranks. Both ranks
compute the normalizations. The residual stream is not drawn.
"""

import draw as d

figure = d.Figure(420, __doc__, 'Each rank has whole heads, and its columns of the MLP')

TOP, LANE, GAP, H = 84, 96, 24, 48
ROWS = [TOP + k * (LANE + GAP) + 58 for k in range(2)]
for k in range(2):
    figure.device(d.MARGIN, TOP + k * (LANE + GAP), d.INNER, LANE, k, f'rank {k}')

PARTS = (  # width, lines for each rank; a single word is an allreduce, forward or backward
    (50, [['norm']] * 2), 'backward', (84, [['q, k, v', f'heads {h}'] for h in ('0, 1', '2, 3')]),
    (78, [['attention', 'of these']] * 2), (58, [['out', 'rows']] * 2), 'forward',
    (50, [['norm']] * 2), 'backward', (88, [['mlp.0', 'columns']] * 2),
    (70, [['mlp.2', 'rows']] * 2), 'forward',
)  # fmt: skip
SPACE, BAR = 14, 14
x = d.MARGIN + 14
bottom = TOP + 2 * LANE + GAP
for part in PARTS:
    if isinstance(part, str):
        full = part == 'forward'
        for y in ROWS:
            figure.line((x - SPACE, y), (x, y))
        fill = d.LINE if full else d.CARD
        figure.rect(x, ROWS[0] - 32, BAR, ROWS[1] - ROWS[0] + 64, fill, d.LINE, r=6)
        figure.line((x + BAR / 2, ROWS[1] + 32), (x + BAR / 2, bottom + 14))
        figure.small(x + BAR / 2, bottom + 25, 'sum')
        figure.hint(x + BAR / 2, bottom + 43, part)
        x += BAR + SPACE
        continue
    width, lines = part
    for k, y in enumerate(ROWS):
        if x > d.MARGIN + 14:
            figure.arrow((x - SPACE, y), (x, y))
        figure.box(x, y - H / 2, width, H, *lines[k], k=k, size=d.SMALL)
    x += width + SPACE
for y in ROWS:
    figure.arrow((x - SPACE, y), (x + 4, y))
