"""Ranks agree on a checkpoint before they resume.

Rank 0 and rank 1 look for a checkpoint before the first step. Above, both find the one from step
1,000, compare its SHA-256, and continue with step 1,001. In the middle, rank 1 finds none, and they
do not compare: rank 0 continues with step 1,001, rank 1 begins with step 1, and their gradients are
averaged. Below, they compare, and both stop with an error message.

If each rank loads with torch.load and nothing compares, no step fails: the ranks train with
mismatched examples, learning rates, parameters and moments, until one finishes first.
"""

import draw as d

figure = d.Figure(500, __doc__, 'What two ranks find before the first step, and what they do then')

ROW, HIGH = 38, 30
CASES = (
    ('A', 'Both see it', ('step 1000', 'step 1000'), True, ('step 1001', 'step 1001')),
    ('B', 'One sees it, nothing compares', ('step 1000', 'none'), False, ('step 1001', 'step 1')),
    ('C', 'One sees it, and they agree first', ('step 1000', 'none'), True, ('stop', 'stop')),
)
FOUND, BOX, NEXT = 130, 300, 520
for row, (letter, name, found, compares, then) in enumerate(CASES):
    top = 78 + row * 120
    figure.case(top, letter, name)
    for rank in range(2):
        y = top + 24 + ROW * rank
        figure.name(d.MARGIN, y + HIGH / 2, f'rank {rank}', rank)
        if found[rank] == 'none':
            figure.idle(FOUND - 32, y, 120, HIGH)
            figure.hint(FOUND + 28, y + HIGH / 2, 'no checkpoint')
        else:
            figure.data(FOUND - 32, y, 120, HIGH, found[rank], size=d.SMALL)
        figure.arrow((FOUND + 88, y + HIGH / 2), (BOX - 30 if compares else NEXT, y + HIGH / 2))
        if compares:
            figure.arrow((BOX + 150, y + HIGH / 2), (NEXT, y + HIGH / 2))
        figure.box(NEXT, y, 130, HIGH, then[rank], k=rank, size=d.SMALL)
    if compares:
        figure.box(
            BOX - 30, top + 24, 180, ROW + HIGH, 'agree: the same', 'SHA-256 on all?', size=d.SMALL
        )
        figure.small(BOX + 184, top + 24 + (ROW + HIGH) / 2, 'no' if letter == 'C' else 'yes')
    else:
        figure.cross(NEXT + 158, top + 24 + (ROW + HIGH) / 2)
