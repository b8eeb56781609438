"""Experts on ranks: each token travels to the expert that the router has chosen, and back.

Four ranks, each with four tokens, each token with the number of the expert that the router has
chosen. A rank sorts its tokens by expert. An all-to-all sends them to the ranks of their experts:
expert 0 gets six, expert 1 five, expert 2 two and expert 3 three. Each expert computes; a second
all-to-all sends the tokens back, still sorted, and they return to their original places.

A square is a token, in the colour of the rank that it comes from; the number in it is the expert
that its router has chosen. Each rank has one expert; they get six, five, two and three tokens.
"""

import draw as d

figure = d.Figure(576, __doc__, 'Tokens travel to their experts, and back to their places')

TOP, PITCH, HIGH, SIDE = 80, 108, 94, 23
CHOICES = ((0, 1, 0, 2), (1, 0, 3, 1), (0, 3, 2, 0), (1, 3, 0, 1))
LEFT, MIDDLE, BACK = 24, 262, 572


def token(x, y, rank, expert):
    figure.part(x, y, SIDE, SIDE, rank, str(expert), size=d.SMALL, bold=True)


for k, choices in enumerate(CHOICES):
    y = TOP + k * PITCH
    for x in (LEFT, BACK):
        figure.device(x, y, 164, HIGH, k, f'rank {k}')
        rows = (choices, ''), (sorted(choices), 'sorted')
        for row, (experts, name) in enumerate(rows if x == LEFT else rows[::-1]):
            for i, expert in enumerate(experts):
                token(x + 10 + i * 25, y + 30 + row * 31, k, expert)
            if name:
                figure.hint(x + 113, y + 42 + row * 31, name, anchor='start')
    figure.device(MIDDLE, y + 16, 236, 62, k, f'expert {k}, on rank {k}')
    visitors = [rank for rank, row in enumerate(CHOICES) for e in row if e == k]
    for i, rank in enumerate(visitors):
        token(MIDDLE + 22 + i * 32, y + 46, rank, k)
for i, choices in enumerate(CHOICES):
    for j in sorted({*choices}):  # there and back; a rank's arrows do not meet in one point
        rank = TOP + i * PITCH + HIGH / 2 + 12 * (j - 1.5)
        expert = TOP + j * PITCH + HIGH / 2 + 12 * (i - 1.5)
        figure.arrow((LEFT + 164, rank), (MIDDLE, expert), color=d.SOLID[i])
        figure.arrow((MIDDLE + 236, expert), (BACK, rank), color=d.SOLID[i])
