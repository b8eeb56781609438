"""What one message costs: a fixed part and a part that grows with its bytes.

A plot of time against bytes for a port of 400 Gb, with a latency of 14 microseconds, of which 40 GB
arrive per second: a straight line that starts at 14 microseconds for 0 bytes and rises by 14 for
every 560 kB: 28 at 560 kB, 42 at 1,120 kB, 56 at 1,680 kB. Left of 560 kB most of the time is
latency, paid per message; right of it most of the time is paid per byte.

At α · W = 14 µs · 40 GB/s = 560 kB, both parts are equal. Left of it, most of the time is
latency: send fewer messages. Right of it, the bytes take most of the time: send fewer bytes.
"""

import draw as d

figure = d.Figure(580, __doc__, 'Seconds for one message of n bytes: α + n / W')

ALPHA, BANDWIDTH = 14e-6, 40e9  # seconds, bytes per second
HALF = ALPHA * BANDWIDTH  # the bytes for which both parts are equal
LEFT, RIGHT, BOTTOM, UP = 80, 724, 404, 5.1
MOST = 3.4 * HALF  # bytes


def at(nbytes, seconds):
    return LEFT + nbytes / MOST * (RIGHT - LEFT), BOTTOM - seconds * 1e6 * UP


def cost(nbytes):
    return ALPHA + nbytes / BANDWIDTH


def area(fill, *points):
    path = 'M' + 'L'.join(' '.join(map(d.number, at(*point))) for point in points) + 'Z'
    figure.add('path', d=path, fill=fill)


words = 'a port of 400 Gb: latency α = 14 µs, bandwidth W = 40 GB/s'
figure.text(d.MARGIN, 66, words, size=d.SMALL, fill=d.MUTED)

# --- the two parts of the time, and their sum
area(d.TINT[5], (0, 0), (0, ALPHA), (MOST, ALPHA), (MOST, 0))
area(d.TINT[4], (0, ALPHA), (MOST, cost(MOST)), (MOST, ALPHA))
figure.line(at(0, ALPHA), at(MOST, ALPHA), color=d.DATA_EDGE, dash='5 4')
figure.line(at(0, ALPHA), at(MOST, cost(MOST)), color=d.SHADE[0], width=2.5)
for nbytes in (HALF, 2 * HALF, 3 * HALF):
    figure.line(at(nbytes, 0), (at(nbytes, 0)[0], BOTTOM + 6), color=d.MUTED)
    figure.small(at(nbytes, 0)[0], BOTTOM + 18, f'{nbytes / 1e3:,.0f} kB')
    figure.circle(*at(nbytes, cost(nbytes)), 4, d.SHADE[0], None)
for us in (14, 28, 42, 56):
    y = at(0, us * 1e-6)[1]
    figure.line((LEFT, y), (LEFT - 6, y), color=d.MUTED)
    figure.small(LEFT - 12, y, f'{us} µs', anchor='end')
figure.small(LEFT - 12, BOTTOM, '0', anchor='end')
figure.arrow((LEFT, BOTTOM), (LEFT, at(0, 62e-6)[1] - 4))
figure.arrow((LEFT, BOTTOM), (d.RIGHT, BOTTOM))
figure.label(d.RIGHT, BOTTOM + 18, 'n', bold=True, anchor='end')

x, low = at(2.5 * HALF, 0)[0], at(0, ALPHA / 2)[1]
figure.label(x, low - 10, 'latency α', bold=True)
figure.small(x, low + 10, 'the same for every message')
low = at(0, 27e-6)[1]
figure.label(x, low - 10, 'n / W', bold=True)
figure.small(x, low + 10, '14 µs more for every 560 kB')

# --- the size at which both parts are equal
x = at(HALF, 0)[0]
for first, last in ((0, ALPHA), (ALPHA, 2 * ALPHA)):
    ends = (x, at(0, first)[1] - 2), (x, at(0, last)[1] + (2 if first == 0 else 5))
    figure.arrow(*ends, both=True)
    figure.small(x - 12, (ends[0][1] + ends[1][1]) / 2, '14 µs', anchor='end')
figure.line((x, BOTTOM + 30), (x, BOTTOM + 44), color=d.MUTED)
y = BOTTOM + 44 + 18
figure.label(x, y, 'n = α · W', bold=True)
figure.arrow((x - 44, y), (LEFT, y))
figure.arrow((x + 44, y), (d.RIGHT, y))
figure.label((LEFT + x - 44) / 2, y + 18, 'pay per message', bold=True)
figure.label((x + 44 + d.RIGHT) / 2, y + 18, 'pay per byte', bold=True)
