"""Draw what the hardware looks like: a server with four GPUs, and a laptop's stand-ins."""

import draw as d

figure = d.Figure(
    452,
    'A server with four GPUs, and a laptop with two stand-in devices',
    'Left: a server. Its CPU, with main memory, is connected through a PCIe switch to four GPUs, '
    'gpu(0) to gpu(3); each has many cores and memory of its own. Right: a laptop. Two cores of '
    'its CPU stand in as devices cpu(0) and cpu(1); each has one queue, one worker thread, one '
    'core, and arrays of its own in main memory. To MXNet both are a list of devices.',
)

LEFT, SPLIT, RIGHT = d.MARGIN, 436, 484

# --- the server: CPU and main memory, the switch, four GPUs
figure.headline('A server with four GPUs', 42, LEFT)
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
    figure.label(x + 47, 230, f'gpu({k})', fill=d.SHADE[k], bold=True, mono=True)
    for row in range(3):
        for column in range(6):
            figure.rect(x + 10 + column * 12.6, 244 + row * 13, 11, 11, d.SOLID[k], None, r=1.5)
    figure.label(x + 47, 297, 'many cores', size=d.SMALL)
    figure.rect(x + 10, 314, 74, 32, d.WHITE, d.SOLID[k], r=0)
    figure.label(x + 47, 330, 'memory', size=d.SMALL)

# --- the laptop: two cores, each a device, and the main memory that holds their arrays
figure.divider((SPLIT + RIGHT) / 2, 28, 358)
figure.headline('A laptop: stand-in devices', 42, RIGHT)
figure.rect(RIGHT, 62, d.WIDTH - d.MARGIN - RIGHT, 172, d.WHITE, d.LINE)
figure.text(RIGHT + 12, 83, 'CPU', bold=True)
figure.rect(RIGHT, 268, d.WIDTH - d.MARGIN - RIGHT, 90, d.DATA, d.DATA_EDGE, r=0)
figure.label((RIGHT + d.WIDTH - d.MARGIN) / 2, 342, 'main memory')
for k in range(2):
    x, centre = RIGHT + 12 + k * 120, RIGHT + 66 + k * 120
    figure.device(x, 94, 108, 128, k, name='')
    figure.label(centre, 112, f'cpu({k})', fill=d.SHADE[k], bold=True, mono=True)
    for i in range(3):  # operations that wait in the queue, and the core that runs them
        figure.rect(x + 12 + i * 13, 133, 10, 12, d.WHITE, d.SOLID[k], r=1.5)
    figure.arrow((x + 51, 139), (x + 71, 139))
    figure.rect(x + 71, 126, 26, 26, d.SOLID[k], None, r=3)
    figure.label(centre, 168, 'one queue', size=d.SMALL)
    figure.label(centre, 186, 'one thread', size=d.SMALL)
    figure.label(centre, 204, 'one core', size=d.SMALL)
    figure.arrow((centre, 222), (centre, 280), both=True)
    figure.part(x, 280, 108, 44, k)
    figure.label(centre, 302, 'its arrays', size=d.SMALL)

figure.text(LEFT, 394, 'To MXNet both are a list of devices:', fill=d.MUTED)
figure.text(LEFT, 424, '[gpu(0), gpu(1), gpu(2), gpu(3)]', mono=True, size=15)
figure.text(RIGHT, 424, '[cpu(0), cpu(1)]', mono=True, size=15)

figure.save(__file__)
