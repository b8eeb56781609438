"""Two workers of different speed with dist_sync and with dist_async.

Schematic; worker 1 takes three times as long as worker 0 for a gradient. Above, dist_sync: both
workers compute a gradient from the same parameters W0; worker 0 pushes its own early and waits; the
server updates to W1 once it has both, and both pull W1. This repeats: three updates, each with two
gradients. Below, dist_async: the server updates with each gradient as it arrives, and no worker
waits for the other. Worker 0 continues with W1, W2, W4, W5, W7 and W8. The gradients of worker 1,
computed from W0, W3 and W6, arrive when the server is at W2, W5 and W8, so they come from
parameters that are 2 updates old. Nine updates, each with one gradient.

Schematic. Light boxes: a gradient is computed from these parameters; dark: the server updates
to these; dotted: waiting. Above, three updates with two gradients each; below, nine with one.
"""

import draw as d

START, END, LANE, STEP = 122, d.RIGHT, 38, 66
COMPUTE = (46, 150)  # each worker's time for a gradient
UPDATE, TRAVEL = 30, 9  # the server's time for an update, and a message's travel time

figure = d.Figure(652, __doc__)


def simulate(sync):
    """Return the gradients, when each update begins, and each worker's last pull.

    A gradient is (worker, its start, the version of the parameters that it was computed from, the
    server's version when it was applied).
    """
    gradients, updates, free = [], [], 0
    pulled = {k: (0, 0) for k in range(2)}  # the time and the version
    while True:
        arrive = {k: pulled[k][0] + COMPUTE[k] + TRAVEL for k in pulled}
        who = list(arrive) if sync else [min(arrive, key=arrive.get)]
        begin = max(free, *(arrive[k] for k in who))
        if START + begin + UPDATE + TRAVEL > END:
            return gradients, updates, pulled
        free = begin + UPDATE
        for k in who:
            gradients.append((k, *pulled[k], len(updates)))
            pulled[k] = (free + TRAVEL, len(updates) + 1)
        updates.append(begin)


def compute(x, y, k, version):
    width = min(COMPUTE[k], END - x)
    if width > 4:
        figure.part(x, y, width, LANE, k)
    if width > 34:
        figure.label(x + width / 2, y + LANE / 2, f'W_{version}')


def case(top, store, what, sync):
    figure.text(d.MARGIN, top - 28, store, size=d.LARGE, bold=True, mono=True)
    figure.headline(what, top - 28, d.MARGIN + 112)
    server = top + STEP
    tops = (top, server + STEP)
    figure.name(d.MARGIN, server + LANE / 2, 'server')
    figure.rect(START, server, END - START, LANE, d.DATA, None, r=0)
    gradients, updates, last = simulate(sync)
    for k in range(2):
        figure.name(d.MARGIN, tops[k] + LANE / 2, f'worker {k}', k)
        compute(START + last[k][0], tops[k], k, last[k][1])
    for version, begin in enumerate(updates, 1):
        figure.bar(START + begin, server, UPDATE, LANE, f'W_{version}', edge=d.CARD)
    for k, start, version, used in gradients:
        x = START + start
        end, back = x + COMPUTE[k], START + updates[used] + UPDATE
        edges = (tops[k] + LANE, server) if k == 0 else (tops[k], server + LANE)
        compute(x, tops[k], k, version)
        figure.arrow((end, edges[0]), (end + TRAVEL, edges[1]))
        figure.arrow((back, edges[1]), (back + TRAVEL, edges[0]))
        y = tops[k] + LANE / 2
        figure.line((end + 6, y), (back + TRAVEL - 6, y), color=d.MUTED, dash='2 4')
        if k == 1 and used > version:
            middle, y = x + COMPUTE[k] / 2, tops[k] + LANE
            figure.small(middle, y + 18, 'computed from parameters')
            figure.small(middle, y + 37, f'{used - version} updates old', bold=True)


TOPS = (74, 330)
case(TOPS[0], 'dist_sync', 'Every step waits for the slower worker', True)
case(TOPS[1], 'dist_async', 'No worker waits for the other; gradients arrive late', False)
AXIS = TOPS[1] + 2 * STEP + LANE + 64
figure.time_axis(START, AXIS, gap=14)
