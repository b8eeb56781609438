"""An output of chapter 3, enlarged: one rank keeps the other waiting.

Two training steps of two PyTorch ranks, as torch.profiler recorded them. Rank 1 computes all the
time, and its allreduces are short. Rank 0 finishes early, and its allreduces are long because it
waits for rank 1.
"""

import draw as d

from mgpu_helpers.lanes import KINDS
from mgpu_helpers.timeline import RECORDED, read_traces

BIG, END = 25, 0.333  # font size readable on a phone, 350 pixels wide; seconds of the two steps
LEFT, TOP, HIGH = 132, 78, 52
SCALE = (d.RIGHT - LEFT) / END
lanes = read_traces(*sorted(RECORDED.glob('straggler-*.json')))

figure = d.Figure(450, __doc__)
figure.text(d.MARGIN, 48, 'Which rank keeps the other waiting?', size=26, bold=True)
for row, (lane, spans) in enumerate(lanes.by_lane().items()):
    y = TOP + row * (HIGH + 6) + 14 * (row > 1)
    figure.text(d.MARGIN, y + 35, lane if row % 2 == 0 else 'sends', size=BIG)
    figure.rect(LEFT, y, d.RIGHT - LEFT, HIGH, d.WHITE, d.DATA_EDGE, r=0, width=1)
    for i, s in enumerate(spans):
        begin, end = (LEFT + min(t - lanes.ends[0], END) * SCALE for t in (s.start, s.end))
        half = HIGH / 2 if row % 2 else 0  # two buckets per step travel at the same time
        if begin < d.RIGHT:
            top = y + half * (i % 2)
            figure.rect(begin, top, max(end - begin, 2), HIGH - half, KINDS[s.kind], None, r=0)
for ms in range(0, 301, 100):
    figure.label(LEFT + ms / 1e3 * SCALE, 350, f'{ms} ms' if ms else '0', size=BIG)
for x, kind in ((LEFT, 'forward'), (306, 'backward'), (500, 'allreduce')):
    figure.rect(x, 396, 24, 24, KINDS[kind], None, r=0)
    figure.label(x + 34, 408, kind, size=BIG, anchor='start')
