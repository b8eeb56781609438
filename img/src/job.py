"""This chapter's job: 32 servers of eight GPUs, as a grid.

A row is a server. Its eight GPUs share each layer (tensor parallelism): they sum the activations
of 131,072 tokens over NVLink, at 360 GB/s for each GPU, and wait for the result. A column is the
GPUs with the same eighth of each layer, one per server: FSDP shards this eighth over 32 servers.
Parameters and gradients travel along it, through each GPU's port at 40 GB/s, while GPUs compute.
"""

import draw as d

figure = d.Figure(344, __doc__, 'Llama 3.1 70B on 256 H100: which message takes which link')

LEFT, TOP, WIDE, HIGH, SIDE = 150, 112, 37, 36, 24
right, bottom = LEFT + 8 * WIDE, TOP + 5 * HIGH
figure.label((LEFT + right) / 2, 70, 'tensor parallelism: NVLink, 360 GB/s', bold=True)
figure.arrow((LEFT + 4, 92), (right - 4, 92), both=True, width=2.5)
for row, server in enumerate((0, 1, 2, None, 31)):
    y = TOP + row * HIGH
    if server is None:
        figure.label(d.MARGIN + 52, y + HIGH / 2 - 2, '…')
        continue
    figure.panel(d.MARGIN, y, right - d.MARGIN + 6, HIGH - 4)
    figure.small(d.MARGIN + 12, y + HIGH / 2 - 2, f'server {server}', anchor='start')
    for gpu in range(8):
        figure.box(LEFT + gpu * WIDE + 6, y + 4, SIDE, SIDE, str(gpu), size=d.SMALL)
words = 'a square is a GPU, its number the eighth of each layer that it computes'
figure.hint((LEFT + right) / 2 - 40, bottom + 18, words)
x = right + 30
figure.arrow((x, TOP + 4), (x, bottom - 8), both=True, width=2.5)
middle = (TOP + bottom) / 2
figure.label(x + 14, middle - 32, 'FSDP: ports, 40 GB/s', bold=True, anchor='start')
lines = 'parameters and gradients,', 'while the GPUs compute'
figure.hint(x + 14, middle + 6, *lines, anchor='start')
