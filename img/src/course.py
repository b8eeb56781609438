"""The course in one picture.

Above: a batch is split over four devices; each runs its shard through its own replica of the
network and computes a gradient; the gradients are summed, and every device makes the same update.
Middle: the nine chapters: 1 by hand, 2 with Gluon, 3 why it is not faster, 4 several machines, 5 in
PyTorch, 6 your own training, 7 too large for one device, 8 what it would cost, 9 language models.
Below: where they run: 1 to 4 on a laptop with stand-in devices and on a server with several GPUs, 5
to 9 in PyTorch.
"""

import draw as d

figure = d.Figure(562, __doc__, 'Split the batch, compute on every device, sum the gradients')

# --- the idea: split, compute, sum
TOP, PITCH, HEIGHT = 98, 46, 38
PANEL, PANEL_W = 138, 420
BOTTOM = TOP + 3 * PITCH + HEIGHT
SUM, RIGHT = 616, d.RIGHT
figure.label(d.MARGIN + 35, 76, 'batch', bold=True)
figure.label(PANEL + PANEL_W / 2, 76, 'the same network on every device', bold=True)
figure.label((SUM + RIGHT) / 2, 76, 'gradients', bold=True)
for k in range(4):
    y = TOP + k * PITCH
    centre = y + HEIGHT / 2
    for i in range(4):
        figure.data(d.MARGIN + i * 17.5, y, 17.5, HEIGHT)
    figure.device(PANEL, y, PANEL_W, HEIGHT, k, name='')
    figure.name(PANEL + 14, centre, f'device {k}', k)
    figure.arrow((d.MARGIN + 70, centre), (PANEL, centre))
    figure.parameters(PANEL + 126, centre, k=k, side=26)
    figure.arrow((PANEL + 139, centre), (PANEL + 163, centre))
    figure.box(PANEL + 163, centre - 13, 84, 26, 'forward', k=k, size=d.SMALL)
    figure.arrow((PANEL + 247, centre), (PANEL + 271, centre))
    figure.box(PANEL + 271, centre - 13, 84, 26, 'backward', k=k, size=d.SMALL)
    figure.arrow((PANEL + 355, centre), (PANEL + 379, centre))
    figure.gradient(PANEL + 394, centre, f'g_{k}', k, r=15)
    figure.arrow((PANEL + 409, centre), (SUM, centre), both=True)
words = 'allreduce:', 'every device', 'gets the sum'
figure.bar(SUM, TOP, RIGHT - SUM, BOTTOM - TOP, *words, r=14)

# --- the chapters, above the places where they run
STOPS = (
    (62, 'by hand,', 'in MXNet'),
    (138, 'with', 'Gluon'),
    (214, 'why not', 'faster?'),
    (292, 'several', 'machines'),
    (382, 'the same', 'in PyTorch'),
    (462, 'your own', 'training'),
    (540, 'too large', 'for one'),
    (620, 'what does', 'it cost?'),
    (700, 'language', 'models'),
)
LINE_Y, PLACES_Y, PLACES_H = 326, 440, 98
figure.line((STOPS[0][0], LINE_Y), (STOPS[-1][0], LINE_Y), color=d.DATA_EDGE, width=4)
for n, (x, above, below) in enumerate(STOPS, 1):
    figure.badge(x, LINE_Y, n, r=17, size=d.LARGE)
    figure.label(x, LINE_Y + 34, above)
    figure.label(x, LINE_Y + 53, below)
for left, right, name in (
    (24, 330, 'chapters 1 to 4 run here'),
    (344, 736, 'chapters 5 to 9 run here'),
):
    y = PLACES_Y - 8
    figure.line((left, y), (left, y - 10), (right, y - 10), (right, y), color=d.DATA_EDGE)
    figure.hint((left + right) / 2, y - 22, name)
PLACES = (
    (24, 146, 'Laptop', 'stand-in devices', 'cpu(0), cpu(1), …'),
    (180, 150, 'GPU server', 'one device per GPU', 'gpu(0), gpu(1), …'),
    (344, 392, 'PyTorch', 'on a laptop,', 'and on the newest GPUs'),
)
for x, wide, name, what, which in PLACES:
    figure.panel(x, PLACES_Y, wide, PLACES_H)
    figure.label(x + wide / 2, PLACES_Y + 24, name, size=15, bold=True)
    figure.small(x + wide / 2, PLACES_Y + 50, what)
    figure.small(x + wide / 2, PLACES_Y + 74, which, mono='(' in which)
