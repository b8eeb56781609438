"""One bucket, sent after the backward pass, and five, sent while it runs.

To scale. The backward pass takes 100 ms. One bucket with all gradients leaves at 100 ms, takes
56 ms, and all of them are exposed. Of five buckets, the dense layers' two are ready after 5 ms, and
their allreduces run from 5 to 54 ms. The convolutions' three are ready at 100 ms; their allreduces
run until 122 ms, and 22 ms are exposed.

To scale. Latency 2 ms, bandwidth 10 MB/s, two devices. In all, one bucket takes
56 ms and five take 72 ms, but only 22 ms of those are exposed.
"""

import draw as d

figure = d.Figure(570, __doc__)

START, MS, HEIGHT, PITCH = 122, 3.7, 40, 62
BUCKETS = {1: (7, 6, 5), 2: (4,), 3: (3,), 4: (2,), 5: (1, 0)}  # LeNet's gradients in each
SIZES = 720, 80, 100_000, 200, 409_600, 512, 5_120, 40  # bytes of each gradient
DENSE, BACKWARD = 5, 100  # ms until the dense layers' gradients are ready, and all


def x(ms):
    return START + ms * MS


def took(gradients):
    """Return an allreduce's ms: two rounds of 2 ms and half the bytes, at 10 MB/s."""
    return 2 * 2 + sum(SIZES[i] for i in gradients) / 1e4


def case(top, name, buckets):
    """Draw the backward pass and the allreduces of buckets: when each is ready, and its ms."""
    figure.headline(name, top - 40)
    for row, what in enumerate(('backward', 'allreduce')):
        figure.name(d.MARGIN, top + row * PITCH + HEIGHT / 2, what)
    figure.rect(x(0), top, DENSE * MS, HEIGHT, d.DATA, d.LINE, r=0)
    figure.rect(x(DENSE), top, (BACKWARD - DENSE) * MS, HEIGHT, d.WHITE, d.LINE, r=0)
    figure.label(x((DENSE + BACKWARD) / 2), top + HEIGHT / 2, 'convolutions')
    figure.flag(x(DENSE / 2), top, 'dense layers', 'start')
    end = 0
    for label, (ready, ms) in buckets.items():
        begin = max(ready, end)
        end = begin + ms
        figure.bar(x(begin), top + PITCH, ms * MS, HEIGHT, label, edge=d.CARD)
    for ready in {ready for ready, _ in buckets.values()}:
        figure.arrow((x(ready), top + HEIGHT), (x(ready), top + PITCH))
    y = top + PITCH + HEIGHT + 14  # the exposed part, after the backward pass
    figure.moment(x(BACKWARD), top + PITCH + HEIGHT + 3, y + 6)
    figure.moment(x(end), top + PITCH + HEIGHT + 3, y + 6)
    figure.arrow((x(BACKWARD) + 1, y), (x(end) - 1, y), both=True)
    figure.label(x((BACKWARD + end) / 2), y + 18, f'exposed: {end - BACKWARD:.0f} ms', bold=True)


TOPS = (82, 294)
case(TOPS[0], 'One bucket leaves when the backward pass has ended', {
    'one bucket': (BACKWARD, took(range(8))),
})  # fmt: skip
case(TOPS[1], 'Of five buckets, two leave much earlier', {
    str(n): (DENSE if n < 3 else BACKWARD, took(gradients)) for n, gradients in BUCKETS.items()
})  # fmt: skip

AXIS = TOPS[1] + PITCH + HEIGHT + 62
figure.time_axis(START, AXIS, gap=14)
for ms in range(0, 161, 10):
    figure.line((x(ms), AXIS), (x(ms), AXIS + (7 if ms % 50 == 0 else 4)), color=d.MUTED, width=1)
    if ms % 50 == 0:
        figure.hint(x(ms), AXIS + 18, f'{ms} ms' if ms else '0')
