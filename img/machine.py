"""Draw what the hardware looks like: a server with four GPUs, and a laptop's stand-ins."""

from draw import (
    DATA,
    DATA_EDGE,
    LARGE,
    LINE,
    MARGIN,
    MUTED,
    SHADE,
    SMALL,
    SOLID,
    TINT,
    WHITE,
    WIDTH,
    Figure,
)

figure = Figure(
    452,
    'A server with four GPUs, and a laptop with two stand-in devices',
    'Left: a server. Its CPU, with main memory, is connected through a PCIe switch to four GPUs, '
    'gpu(0) to gpu(3); each has many cores and memory of its own. Right: a laptop. Two cores of '
    'its CPU stand in as devices cpu(0) and cpu(1); each has one queue, one worker thread, one '
    'core, and arrays of its own in main memory. To MXNet both are a list of devices.',
)

LEFT, SPLIT, RIGHT = MARGIN, 436, 484

# --- the server: CPU and main memory, the switch, four GPUs
figure.text(LEFT, 42, 'A server with four GPUs', size=LARGE, bold=True)
figure.box(102, 62, 108, 50, 'CPU', bold=True)
figure.data(258, 62, 126, 50, 'main memory')
figure.arrow((210, 87), (258, 87), both=True)
figure.arrow((156, 112), (156, 146), both=True)
figure.rect(LEFT, 146, SPLIT - LEFT, 32)
figure.label((LEFT + SPLIT) / 2, 162, 'PCIe switch')
for k in range(4):
    x = LEFT + k * 106
    figure.arrow((x + 47, 178), (x + 47, 212), both=True)
    figure.device(x, 212, 94, 146, k, name='')
    figure.label(x + 47, 230, f'gpu({k})', fill=SHADE[k], bold=True, mono=True)
    for row in range(3):
        for column in range(6):
            figure.rect(x + 10 + column * 12.6, 244 + row * 13, 11, 11, SOLID[k], None, r=1.5)
    figure.label(x + 47, 297, 'many cores', size=SMALL)
    figure.rect(x + 10, 314, 74, 32, WHITE, SOLID[k], r=0)
    figure.label(x + 47, 330, 'memory', size=SMALL)

# --- the laptop: two cores, each a device, and the main memory that holds their arrays
figure.line(((SPLIT + RIGHT) / 2, 28), ((SPLIT + RIGHT) / 2, 358), color='#D5D3CD')
figure.text(RIGHT, 42, 'A laptop: stand-in devices', size=LARGE, bold=True)
figure.rect(RIGHT, 62, WIDTH - MARGIN - RIGHT, 172, WHITE, LINE)
figure.text(RIGHT + 12, 83, 'CPU', bold=True)
figure.rect(RIGHT, 268, WIDTH - MARGIN - RIGHT, 90, DATA, DATA_EDGE, r=0)
figure.label((RIGHT + WIDTH - MARGIN) / 2, 342, 'main memory')
for k in range(2):
    x, centre = RIGHT + 12 + k * 120, RIGHT + 66 + k * 120
    figure.device(x, 94, 108, 128, k, name='')
    figure.label(centre, 112, f'cpu({k})', fill=SHADE[k], bold=True, mono=True)
    for i in range(3):  # operations that wait in the queue, and the core that runs them
        figure.rect(x + 12 + i * 13, 133, 10, 12, WHITE, SOLID[k], r=1.5)
    figure.arrow((x + 51, 139), (x + 71, 139))
    figure.rect(x + 71, 126, 26, 26, SOLID[k], None, r=3)
    figure.label(centre, 168, 'one queue', size=SMALL)
    figure.label(centre, 186, 'one thread', size=SMALL)
    figure.label(centre, 204, 'one core', size=SMALL)
    figure.arrow((centre, 222), (centre, 280), both=True)
    figure.rect(x, 280, 108, 44, TINT[k], SOLID[k], r=0)
    figure.label(centre, 302, 'its arrays', size=SMALL)

figure.text(LEFT, 394, 'To MXNet both are a list of devices:', fill=MUTED)
figure.text(LEFT, 424, '[gpu(0), gpu(1), gpu(2), gpu(3)]', mono=True, size=15)
figure.text(RIGHT, 424, '[cpu(0), cpu(1)]', mono=True, size=15)

figure.save(__file__)
