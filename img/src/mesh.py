"""A mesh of two by two ranks: data parallelism by tensor parallelism.

Ranks 0 and 1 are on machine 0, ranks 2 and 3 on machine 1. Along a row, inside a machine, two ranks
share the layers: activations travel four times per block. Along a column, between machines, two
ranks have the same half of each layer and different examples: gradients travel once per step.

What is sent most often goes over the fastest link: tensor parallelism inside a machine,
data parallelism between machines.
"""

import draw as d

figure = d.Figure(432, __doc__, 'Along each axis of the mesh, another way to split')

TOP, HIGH, GAP, LEFT, WIDE = 66, 116, 62, 24, 712
BOX, BOX_H = 214, 62
for machine in range(2):
    y = TOP + machine * (HIGH + GAP)
    part = ('half of the batch', 'the other half')[machine]
    figure.device(LEFT, y, WIDE, HIGH, machine, f'machine {machine}: {part}')
    for half in range(2):
        x = LEFT + 28 + half * (WIDE - 56 - BOX)
        rank = 2 * machine + half
        words = f'rank {rank}', f'{("first", "second")[half]} half of each layer'
        figure.box(x, y + 38, BOX, BOX_H, *words, k=machine)
    inner = LEFT + 28 + BOX, LEFT + WIDE - 28 - BOX
    middle = y + 38 + BOX_H / 2
    figure.arrow((inner[0] + 4, middle), (inner[1] - 4, middle), both=True, width=2.5)
    figure.label(sum(inner) / 2, middle - 17, 'axis "tensor"', bold=True)
    figure.hint(sum(inner) / 2, middle + 18, 'activations, 4 times a block')
for half in range(2):
    x = LEFT + 28 + half * (WIDE - 56 - BOX) + BOX - 10  # next to the machine's name
    top = TOP + 38 + BOX_H
    figure.arrow((x, top + 4), (x, TOP + HIGH + GAP + 34), both=True, width=2.5)
middle = TOP + HIGH + GAP / 2
figure.label(d.WIDTH / 2, middle - 10, 'axis "data"', bold=True)
figure.hint(d.WIDTH / 2, middle + 10, 'gradients, once a step')
