"""Traffic on each link: four workers with one server, and four workers in a ring.

Left: one server above four workers; each worker sends its gradients to the server and gets the
parameters back. In one step, one model goes out over each worker's link and one comes in; over the
server's link, four come in and four go out. Right: four workers in a ring, each of which sends to
the next one. In one step, 1.5 models go out over every link, and 1.5 come in.

How many times the whole model passes each link in one step. With W workers: W times in and
W times out over the link of one server; 2(W − 1)/W times over every link of a ring.
"""

import draw as d

figure = d.Figure(434, __doc__)

PANEL = 344
H, TOP, LOW = 46, 98, 262
LEFT, RIGHT = d.MARGIN, d.RIGHT - PANEL


def worker(k, cx, y, w):
    figure.device(cx - w / 2, y, w, H, k, name='')
    figure.label(cx, y + H / 2, f'worker {k}', bold=True, fill=d.SHADE[k])


figure.headline('One server: its link carries all', 42, LEFT)
figure.headline('A ring: every link carries the same', 42, RIGHT)

# --- one server
middle, W = LEFT + PANEL / 2, 80
figure.rect(middle - 66, TOP, 132, H, d.DATA, d.DATA_EDGE, r=9)
figure.label(middle, TOP + H / 2, 'server', bold=True)
figure.label(middle, TOP - 18, '4 in, 4 out', bold=True)
for k in range(4):
    cx = LEFT + W / 2 + k * (PANEL - W) / 3
    worker(k, cx, LOW, W)
    figure.arrow((cx, LOW), (middle + (k - 1.5) * 36, TOP + H), both=True)
    figure.small(cx, LOW + H + 20, '1 in, 1 out')

# --- a ring
W = 110
XS = (RIGHT + W / 2, RIGHT + PANEL - W / 2)
for k, (cx, y) in enumerate(((XS[0], TOP), (XS[1], TOP), (XS[1], LOW), (XS[0], LOW))):
    worker(k, cx, y, W)
    figure.small(cx, y - 18 if y == TOP else y + H + 20, '1.5 in, 1.5 out')
figure.arrow((XS[0] + W / 2, TOP + H / 2), (XS[1] - W / 2, TOP + H / 2))
figure.arrow((XS[1], TOP + H), (XS[1], LOW))
figure.arrow((XS[1] - W / 2, LOW + H / 2), (XS[0] + W / 2, LOW + H / 2))
figure.arrow((XS[0], LOW), (XS[0], TOP + H))
figure.small(RIGHT + PANEL / 2, (TOP + LOW + H) / 2, 'reduce-scatter,', 'then all-gather')
