"""Draw two devices whose operators wait for each other, and two that work together."""

from draw import DATA_EDGE, LARGE, MARGIN, MUTED, SHADE, SOLID, TINT, WIDTH, Figure

figure = Figure(
    474,
    'Two devices that take turns, and two that work together',
    'Schematic, not measured. Above: the operators of the two devices share a workspace, so that '
    'they alternate: device 0 works while device 1 waits, then the other way round. Four operators '
    'on each device take eight units of time. Below: every device has a workspace of its own. Both '
    'work all the time, and the same eight operators take four units of time.',
)

START, UNIT, HEIGHT, STEP = 122, 74, 44, 54
OPERATORS = 4


def operator(x, y, k, n):
    figure.rect(x, y, UNIT, HEIGHT, TINT[k], SOLID[k], r=0)
    figure.label(x + UNIT / 2, y + HEIGHT / 2, f'op {n + 1}')


def lanes(y, name):
    """Name both lanes."""
    figure.text(MARGIN, y - 30, name, size=LARGE, bold=True)
    for k in range(2):
        middle = y + k * STEP + HEIGHT / 2
        figure.label(MARGIN, middle, f'device {k}', fill=SHADE[k], bold=True, anchor='start')


TURNS, TOGETHER = 72, 262
lanes(TURNS, 'Taking turns: one works, one waits')
for n in range(OPERATORS):
    for k in range(2):
        x, wait = (START + (2 * n + i) * UNIT for i in (k, 1 - k))
        y = TURNS + k * STEP
        operator(x, y, k, n)
        figure.line(
            (wait + 8, y + HEIGHT / 2), (wait + UNIT - 8, y + HEIGHT / 2), color=MUTED, dash='2 4'
        )
lanes(TOGETHER, 'Together: both work')
for n in range(OPERATORS):
    for k in range(2):
        operator(START + n * UNIT, TOGETHER + k * STEP, k, n)

BOTTOM = TOGETHER + STEP + HEIGHT
slow, fast = START + 2 * OPERATORS * UNIT, START + OPERATORS * UNIT
figure.line((slow, TURNS + STEP + HEIGHT + 4), (slow, BOTTOM + 24), color=DATA_EDGE, dash='5 4')
figure.line((fast, BOTTOM + 4), (fast, BOTTOM + 24), color=DATA_EDGE, dash='5 4')
figure.arrow((fast + 4, (TOGETHER + BOTTOM) / 2), (slow - 4, (TOGETHER + BOTTOM) / 2), both=True)
figure.label((fast + slow) / 2, (TOGETHER + BOTTOM) / 2 - 16, 'time saved', bold=True)
figure.arrow((START, BOTTOM + 24), (WIDTH - MARGIN, BOTTOM + 24))
figure.label(START - 14, BOTTOM + 24, 'time', fill=MUTED, anchor='end')

figure.caption(
    'Schematic, not measured. By default all mx.cpu(i) share four temporary workspaces, and an',
    'operator (op) waits (dotted) while another device uses the same one. Below, each has its own.',
)
figure.save(__file__)
