"""A 70B on 64 GPUs: eight servers of eight GPUs, as a grid.

A row is a server. Its eight GPUs share each layer (tensor parallelism): twice per layer and pass,
they sum the vectors of its tokens over NVLink, at 360 GB/s each. A column is the GPUs with the same
eighth of each layer, one per server. Along it, keys and values circulate for each layer (context
parallelism), and gradients and new parameters once per step (sharded states), over each GPU's port,
at 40 GB/s. With zig-zag, server 0 has pieces 0 and 15 of the sequence, server 7 pieces 7 and 8.

With 1,024 GPUs there are eight such grids of 16 servers, each with a sequence of its own.
"""

import draw as d

figure = d.Figure(490, __doc__, 'Which axis on which link')

LEFT, TOP, WIDE, HIGH = 212, 136, 37, 34
SIDE = 24
right, bottom = LEFT + 8 * WIDE, TOP + 8 * HIGH
figure.label((LEFT + right) / 2, 74, 'tensor: NVLink, 360 GB/s', bold=True)
figure.hint((LEFT + right) / 2, 94, 'vectors of its tokens, twice a layer')
figure.arrow((LEFT + 4, 114), (right - 4, 114), both=True, width=2.5)
for server in range(8):
    y = TOP + server * HIGH
    figure.panel(d.MARGIN, y, right - d.MARGIN + 6, HIGH - 4)
    words = f'server {server}: pieces {server} and {15 - server}'
    figure.small(d.MARGIN + 10, y + HIGH / 2 - 2, words, anchor='start')
    for gpu in range(8):
        x = LEFT + gpu * WIDE + (WIDE - SIDE) / 2
        figure.box(x, y + 3, SIDE, SIDE, str(gpu), size=d.SMALL)
figure.hint(
    (LEFT + right) / 2,
    bottom + 16,
    'a square is a GPU, its number the eighth of each layer that it has',
)
x = right + 32
figure.arrow((x, TOP + 4), (x, bottom - 8), both=True, width=2.5)
middle = (TOP + bottom) / 2
for y, name, *lines in (
    (middle - 92, 'ports, 40 GB/s'),
    (middle - 46, 'context', 'keys and values,', '7 times a layer'),
    (middle + 42, 'sharded states', 'gradients and parameters,', 'once a step'),
):
    figure.label(x + 14, y, name, bold=True, anchor='start')
    figure.hint(x + 14, y + 30, *lines, anchor='start')
