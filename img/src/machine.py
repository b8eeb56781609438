"""A server with four GPUs, and a laptop with two stand-in devices.

Left: a server. Its CPU, with main memory, is connected through a PCIe switch to four GPUs, gpu(0)
to gpu(3); each has many cores and memory of its own. Right: a laptop. Two cores of its CPU stand in
as devices cpu(0) and cpu(1); each has one queue, one worker thread, one core, and arrays of its own
in main memory. To MXNet both are a list of devices.
"""

import draw as d

figure = d.Figure(488, __doc__, 'GPUs of a server, and their stand-ins on a laptop')

LEFT, SPLIT, RIGHT = d.MARGIN, 436, 484

# --- the server: CPU and main memory, the switch, four GPUs
figure.text(LEFT, 78, 'A server with four GPUs', bold=True)
figure.box(102, 98, 108, 50, 'CPU', bold=True)
figure.data(258, 98, 126, 50, 'main memory')
figure.arrow((210, 123), (258, 123), both=True)
figure.arrow((156, 148), (156, 182), both=True)
figure.rect(LEFT, 182, SPLIT - LEFT, 32)
figure.label((LEFT + SPLIT) / 2, 198, 'PCIe switch')
for k in range(4):
    x = LEFT + k * 106
    figure.arrow((x + 47, 214), (x + 47, 248), both=True)
    figure.device(x, 248, 94, 146, k, name='')
    figure.label(x + 47, 266, f'gpu({k})', fill=d.SHADE[k], bold=True, mono=True)
    for row in range(3):
        for column in range(6):
            figure.rect(x + 10 + column * 12.6, 280 + row * 13, 11, 11, d.SOLID[k], None, r=1.5)
    figure.small(x + 47, 333, 'many cores')
    figure.rect(x + 10, 350, 74, 32, d.WHITE, d.SOLID[k], r=0)
    figure.small(x + 47, 366, 'memory')

# --- the laptop: two cores, each a device, and the main memory that holds their arrays
figure.divider((SPLIT + RIGHT) / 2, 64, 394)
figure.text(RIGHT, 78, 'A laptop: stand-in devices', bold=True)
figure.rect(RIGHT, 98, d.RIGHT - RIGHT, 172, d.WHITE, d.LINE)
figure.text(RIGHT + 12, 119, 'CPU', bold=True)
figure.rect(RIGHT, 304, d.RIGHT - RIGHT, 90, d.DATA, d.DATA_EDGE, r=0)
figure.label((RIGHT + d.RIGHT) / 2, 378, 'main memory')
for k in range(2):
    x, centre = RIGHT + 12 + k * 120, RIGHT + 66 + k * 120
    figure.device(x, 130, 108, 128, k, name='')
    figure.label(centre, 148, f'cpu({k})', fill=d.SHADE[k], bold=True, mono=True)
    for i in range(3):  # operations waiting in the queue, and the core that runs them
        figure.rect(x + 12 + i * 13, 169, 10, 12, d.WHITE, d.SOLID[k], r=1.5)
    figure.arrow((x + 51, 175), (x + 71, 175))
    figure.rect(x + 71, 162, 26, 26, d.SOLID[k], None, r=3)
    figure.small(centre, 222, 'one queue', 'one thread', 'one core', leading=18 / 13)
    figure.arrow((centre, 258), (centre, 316), both=True)
    figure.part(x, 316, 108, 44, k, 'its arrays', size=d.SMALL)

figure.text(LEFT, 430, 'To MXNet both are a list of devices:', fill=d.MUTED)
figure.text(LEFT, 460, '[gpu(0), gpu(1), gpu(2), gpu(3)]', mono=True, size=15)
figure.text(RIGHT, 460, '[cpu(0), cpu(1)]', mono=True, size=15)
