"""A launcher watches scheduler, server and workers, and the operating system watches the launcher.

A, nobody watches: worker 1 is killed; scheduler, server and worker 0 wait forever and print
nothing. B, a launcher watches the four: worker 1 is killed; first, the launcher notices that its
process has ended; second, it stops scheduler, server and worker 0; third, it reports worker 1 and
its last output. C, the launcher itself is killed: each of the four processes has asked the system
to kill it when its parent dies, and the system ends all four.
"""

import draw as d

figure = d.Figure(742, __doc__)

NAMES = ('scheduler', 'server', 'worker 0', 'worker 1')
W, H, GAP = 154, 40, 32
DEAD = 3
MIDDLES = [d.MARGIN + i * (W + GAP) + W / 2 for i in range(4)]


def process(i, y, w=W):
    fill, edge, ink = (d.WHITE, d.DATA, d.TINT[0], d.TINT[1])[i], d.DATA_EDGE, d.INK
    if i > 1:
        edge, ink = d.SOLID[i - 2], d.SHADE[i - 2]
    figure.rect(MIDDLES[i] - w / 2, y, w, H, fill, edge, r=9)
    figure.label(MIDDLES[i], y + H / 2, NAMES[i], bold=True, fill=ink)


def launcher(y, dash=None):
    figure.rect(d.MARGIN, y, d.INNER, H, d.WHITE, dash=dash)
    figure.label(d.WIDTH / 2, y + H / 2, 'launcher', bold=True)


def step(cx, cy, n, words):
    figure.badge(cx, cy, n, r=9, size=d.SMALL)
    figure.small(cx + 15, cy, words, anchor='start')


def fate(i, y, words):
    figure.small(MIDDLES[i], y + H + 17, words, fill=d.STOP if i == DEAD else d.MUTED)
    if i == DEAD:
        figure.cross(MIDDLES[i] + W / 2 - 20, y + H / 2, 9)


# --- A
figure.case(40, 'A', 'Nobody watches: one is killed, the others wait for ever')
y = 70
for i in range(4):
    process(i, y)
    fate(i, y, 'killed' if i == DEAD else 'waits, silently')

# --- B
figure.case(172, 'B', 'The launcher watches: one is killed, all end, and the reason is told')
REPORT, TOP, ROW = 200, 284, 376
figure.data(d.MARGIN, REPORT, d.INNER, 50)
for line, words in enumerate(('worker 1 was killed by signal 9 (SIGKILL)', 'Its last lines: …')):
    figure.text(d.MARGIN + 14, REPORT + 20 + 20 * line, words, size=d.SMALL, mono=True)
launcher(TOP)
figure.arrow((d.WIDTH / 2, TOP), (d.WIDTH / 2, REPORT + 50))
step(d.WIDTH / 2 + 18, (TOP + REPORT + 50) / 2, 3, 'report its last words')
for i in range(4):
    process(i, ROW)
    ends = (MIDDLES[i], TOP + H), (MIDDLES[i], ROW)
    figure.arrow(*(ends[::-1] if i == DEAD else ends))
    middle = (TOP + H + ROW) / 2
    step(MIDDLES[i] + 16, middle, *((1, 'ended') if i == DEAD else (2, 'stop')))
    fate(i, ROW, 'killed' if i == DEAD else 'stopped')

# --- C
figure.case(478, 'C', 'The launcher is killed: the system ends those that have asked for it')
TOP, SYSTEM, ROW = 506, 582, 666
launcher(TOP, dash='5 4')
figure.cross(d.RIGHT - 20, TOP + H / 2, 9)
figure.line((d.WIDTH / 2, TOP + H), (d.WIDTH / 2, SYSTEM), dash='5 4')
figure.text(d.WIDTH / 2 + 10, (TOP + H + SYSTEM) / 2 + 5, 'gone?', size=d.SMALL)
figure.rect(d.MARGIN, SYSTEM, d.INNER, H, d.DATA)
figure.label(d.WIDTH / 2, SYSTEM + H / 2, 'operating system', bold=True)
for i in range(4):
    process(i, ROW)
    figure.arrow((MIDDLES[i], SYSTEM + H), (MIDDLES[i], ROW))
    figure.text(MIDDLES[i] + 10, (SYSTEM + H + ROW) / 2 + 5, 'ends it', size=d.SMALL)
