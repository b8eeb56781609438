"""Experts on ranks: each token travels to the one that its router has chosen, and back.

Four ranks, each with four tokens, each token with the number of the expert that the router has
chosen. An all-to-all brings them to the ranks of their experts: expert 0 gets six, expert 1 gets
five, expert 2 gets two and expert 3 three. Each expert computes; a second all-to-all brings the
tokens back to their places.

A square is a token, in the colour of the rank that it comes from; the number in it is the expert
that its router has chosen. On each rank is one expert; they get six, five, two and three tokens.
"""

import draw as d

figure = d.Figure(468, __doc__, 'Tokens travel to their experts, and back to their places')

TOP, PITCH, HIGH, SIDE = 88, 78, 62, 26
CHOICES = ((0, 1, 0, 2), (1, 0, 3, 1), (0, 3, 2, 0), (1, 3, 0, 1))
LEFT, MIDDLE, BACK = 24, 262, 572


def token(x, y, rank, expert):
    figure.part(x, y, SIDE, SIDE, rank, str(expert), size=d.SMALL, bold=True)


for k, choices in enumerate(CHOICES):
    y = TOP + k * PITCH
    for x in (LEFT, BACK):
        figure.device(x, y, 164, HIGH, k, f'rank {k}')
        for i, expert in enumerate(choices):
            token(x + 22 + i * 32, y + 29, k, expert)
    figure.device(MIDDLE, y, 236, HIGH, k, f'expert {k}, on rank {k}')
    visitors = [rank for rank, row in enumerate(CHOICES) for e in row if e == k]
    for i, rank in enumerate(visitors):
        token(MIDDLE + 22 + i * 32, y + 29, rank, k)
for start, end in ((LEFT + 164, MIDDLE), (MIDDLE + 236, BACK)):
    for i in range(4):
        for j in range(4):
            if start > MIDDLE or j in CHOICES[i]:
                a, b = (i, j) if start < MIDDLE else (j, i)
                if start > MIDDLE and j not in CHOICES[i]:
                    continue
                ya, yb = (TOP + n * PITCH + HIGH / 2 for n in (a, b))
                figure.line((start + 4, ya), (end - 4, yb), color=d.SOLID[i])
