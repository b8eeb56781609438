"""A step of this chapter's job: what computes, what the GPUs wait for, what hides.

Time runs to the right, to 29.8 seconds. A GPU computes for 24.8 of them: forward, then, block by
block, forward again and backward. The allreduces of tensor parallelism, 5.0 seconds in all, go over
NVLink in between, and the GPU waits. FSDP's messages go through the port while the GPU computes.

Nearly to scale; each bar stands for the messages of twenty blocks.
"""

import draw as d

figure = d.Figure(312, __doc__, 'One step of the job, as predicted')

LEFT, SECOND = 98, (d.RIGHT - 8 - 98) / 29.8
GPU, NVLINK, PORT, HIGH = 92, 142, 194, 24
FORWARD, SUMS = 6.2 / 4, 5 / 12  # seconds of computing and of allreduces, for twenty blocks
GATHER, SCATTER = 0.43 / 4, 0.86 / 4  # parameters, and float32 gradients, through a port


def computed(at, letter, seconds, *sent):
    """Draw a pass through twenty blocks and its messages; return when it ends."""
    x, w = LEFT + at * SECOND, seconds * SECOND
    figure.part(x, GPU, w, 42, 0, letter, size=d.SMALL)
    figure.bar(x + w, NVLINK, SUMS * SECOND, HIGH)
    for i, message in enumerate(sent):
        figure.solid(x + (0.2 + 0.4 * i) * w, PORT, message * SECOND, HIGH, 5)
    return at + seconds + SUMS


for y, name in ((GPU + 21, 'GPU'), (NVLINK + 12, 'NVLink'), (PORT + 12, 'port')):
    figure.name(d.MARGIN, y, name)
at = 0
for _ in range(4):
    at = computed(at, 'F', FORWARD, GATHER)
turn = LEFT + at * SECOND
for _ in range(4):
    at = computed(at, 'F', FORWARD, GATHER)
    at = computed(at, 'B', 2 * FORWARD, SCATTER)
end = LEFT + at * SECOND
figure.moment(turn, 66, NVLINK + HIGH)
figure.small((LEFT + turn) / 2, 74, 'forward')
figure.small((turn + end) / 2, 74, 'block by block: forward again, then backward')
words = "tensor parallelism's allreduces, 5.0 s in all: the GPU waits", "FSDP's messages: hidden"
for y, line in zip((NVLINK, PORT), words, strict=True):
    figure.small(LEFT, y + HIGH + 13, line, anchor='start')
figure.arrow((LEFT, 250), (d.RIGHT, 250))
figure.label(LEFT - 12, 250, 'time', fill=d.MUTED, anchor='end')
figure.small(end, 266, '29.8 s', anchor='end')
