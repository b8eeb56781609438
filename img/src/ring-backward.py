"""The ring's backward pass: gradients travel with their keys and values, one step further.

A row for each of four ranks, a column for each of four turns. In turn 0 a rank has its own keys and
values and their gradients; in each later turn, it has those that the rank before it had. A rank
whose queries attend to these keys adds its part of the gradient. After turn 3 only the gradients
take one more step, back to their own rank.

A box is the gradient of one rank's keys and values, in that rank's colour: bold where queries add
to it, dashed where a causal mask leaves nothing to add. After four steps it is back on its rank.
"""

import draw as d

figure = d.Figure(402, __doc__, 'Backward: gradients travel with their keys, until they are home')

LEFT, TOP, WIDE, HIGH, PITCH = 104, 98, 96, 34, 124

for rank in range(4):
    y = TOP + rank * 50
    figure.name(d.MARGIN, y + HIGH / 2, f'rank {rank}', rank)
    for turn in range(5):
        owner = (rank - turn) % 4
        x, adds = LEFT + turn * PITCH, owner <= rank and turn < 4
        dash = '4 4' if turn < 4 and not adds else None
        figure.rect(x, y, WIDE, HIGH, d.TINT[owner], d.SOLID[owner], r=0, dash=dash)
        figure.label(x + WIDE / 2, y + HIGH / 2, f'dK{owner}, dV{owner}', bold=adds, size=d.SMALL)
for turn in range(5):
    x = LEFT + turn * PITCH
    title = f'turn {turn}' if turn < 4 else 'home'
    figure.label(x + WIDE / 2, TOP - 18, title, bold=True)
    if turn < 4:
        y = TOP + 4 * 50 - 3
        figure.arrow((x + WIDE / 2 + 14, y), (x + PITCH + WIDE / 2 - 14, y), width=2)
        figure.hint(x + PITCH / 2 + WIDE / 2, y + 16, 'to the next rank')
