"""A small vision transformer: 16 patches, four blocks, ten logits.

An image of 28 by 28 pixels is cut into 16 patches; each becomes a vector of 96 numbers. Four blocks
follow, then a layer that returns ten logits. Inside a block, the vectors are normalized and the
output of attention with four heads is added to them; then they are normalized again, and the output
of an MLP, from 96 to 384 to 96 numbers, is added.

Each patch keeps its place in a row of 16 vectors. Attention combines the vectors, the MLP
processes each one separately. Both add their output to the vector.
"""

import draw as d

figure = d.Figure(396, __doc__, 'A small vision transformer: 16 patches, four blocks, ten logits')

LINE_Y, H = 102, 46
for i in range(4):
    for j in range(4):
        x, y = d.MARGIN + j * 16, LINE_Y - 32 + i * 16
        figure.rect(x, y, 15, 15, d.DATA, d.DATA_EDGE, r=0, width=1)
figure.text(d.MARGIN, LINE_Y + 54, '28 × 28, 16 patches', size=d.SMALL, fill=d.MUTED)
blocks = [(270 + 92 * i, 76, 'Block') for i in range(4)]
end = d.MARGIN + 66
for x, w, name in ((134, 96, 'Patches'), *blocks, (648, 88, 'Logits')):
    figure.arrow((end, LINE_Y), (x, LINE_Y))
    figure.box(x, LINE_Y - H / 2, w, H, name)
    end = x + w
figure.text(270, LINE_Y + 54, '16 vectors of 96 numbers, all the way', size=d.SMALL, fill=d.MUTED)
figure.text(648, LINE_Y + 54, '10 logits', size=d.SMALL, fill=d.MUTED)

TOP = 178
figure.panel(d.MARGIN, TOP, d.INNER, 126)
figure.text(d.MARGIN + 14, TOP + 24, 'one block', bold=True)
Y = TOP + 84
parts = [(92, 76, ('norm',)), (192, 136, ('attention', '4 heads of 24')), (400, 76, ('norm',)),
         (500, 136, ('MLP', '96 → 384 → 96'))]  # fmt: skip
plus = {1: 362, 3: 670}
end = d.MARGIN + 16
for i, (x, w, lines) in enumerate(parts):
    figure.arrow((end, Y), (x, Y))
    figure.box(x, Y - 23, w, 46, *lines, size=d.SMALL)
    end = x + w
    if i in plus:
        figure.arrow((end, Y), (plus[i] - 11, Y))
        start = parts[i - 1][0] - 12
        figure.arrow((start, Y), (start, Y - 42), (plus[i], Y - 42), (plus[i], Y - 11))
        figure.circle(plus[i], Y, 11, d.WHITE, d.INK)
        figure.label(plus[i], Y, '+', size=d.LARGE)
        end = plus[i] + 11
figure.arrow((end, Y), (d.RIGHT - 14, Y))
