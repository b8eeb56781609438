"""Allreduce after the backward pass, and overlapped with it.

Invented times, to scale. The backward pass takes 20 ms for layer 3, 30 ms for layer 2 and 40 ms for
layer 1; the allreduces of their gradients take 40, 20 and 20 ms. After: backward ends at 90 ms, the
allreduces follow one after the other until 170 ms, and all 80 ms are exposed. Overlapped: the
allreduce of layer 3 runs from 20 to 60 ms and that of layer 2 from 60 to 80 ms, while the backward
pass goes on; that of layer 1 from 90 to 110 ms. 20 ms are exposed.

Invented times, to scale; backward goes from the last layer to the first. The allreduces take
80 ms in both. Below, layer 2 waits 10 ms for the network, and only 20 ms are exposed.
"""

import draw as d

figure = d.Figure(554, __doc__)

START, MS, HEIGHT, STEP = 122, 3.4, 40, 62
BACKWARD, ALLREDUCE = {3: 20, 2: 30, 1: 40}, {3: 40, 2: 20, 1: 20}  # ms for each layer


def x(ms):
    return START + ms * MS


def case(top, name, overlapped):
    """Draw one case; return the times, in ms, when backward ends and when everything ends."""
    figure.headline(name, top - 30)
    computed = sum(BACKWARD.values())
    now, network = 0, 0 if overlapped else computed
    for row, what in enumerate(('backward', 'allreduce')):
        figure.name(d.MARGIN, top + row * STEP + HEIGHT / 2, what)
    for layer, ms in BACKWARD.items():
        figure.rect(x(now), top, ms * MS, HEIGHT, d.WHITE, d.LINE, r=0)
        figure.label(x(now + ms / 2), top + HEIGHT / 2, f'layer {layer}')
        now += ms
        begin = max(now, network)
        network = begin + ALLREDUCE[layer]
        width = ALLREDUCE[layer] * MS
        figure.bar(x(begin), top + STEP, width, HEIGHT, f'layer {layer}', edge=d.CARD)
        if overlapped:  # from when the gradient is ready to when it is sent
            low = top + STEP
            turn = (top + HEIGHT + low) / 2 - 3
            points = ((x(now), top + HEIGHT), (x(now), turn), (x(begin), turn), (x(begin), low))
            figure.arrow(*(points if begin > now else points[::3]), r=5)
    return computed, network


TOPS = (72, 274)
AFTER = TOPS[0], 'After: first all of backward, then all allreduces', False
OVERLAPPED = TOPS[1], 'Overlapped: an allreduce starts as soon as its gradient is there', True
for top, name, overlapped in (AFTER, OVERLAPPED):
    computed, end = case(top, name, overlapped)
    # the exposed part, after the backward pass
    y = top + STEP + HEIGHT + 14
    figure.moment(x(computed), top + (HEIGHT + STEP if overlapped else HEIGHT) + 3, y + 6)
    figure.moment(x(end), top + STEP + HEIGHT + 3, y + 6)
    figure.arrow((x(computed) + 1, y), (x(end) - 1, y), both=True)
    figure.label(x((computed + end) / 2), y + 18, f'exposed: {end - computed} ms', bold=True)

AXIS = TOPS[1] + STEP + HEIGHT + 62
figure.time_axis(START, AXIS, gap=14)
for ms in range(0, 171, 10):
    figure.line((x(ms), AXIS), (x(ms), AXIS + (7 if ms % 50 == 0 else 4)), color=d.MUTED, width=1)
    if ms % 50 == 0:
        figure.hint(x(ms), AXIS + 18, f'{ms} ms' if ms else '0')
