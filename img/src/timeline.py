"""One training step on one device and on two: less than twice as fast.

Schematic, not to scale. One device with 256 examples: forward, backward, update, one after the
other. Two devices with 128 examples each: forward and backward take half as long, on both devices
at the same time; then a short allreduce and an update that takes as long as before. The step ends
after a little more than half the time.

Schematic, not to scale. Half the examples take half the time. The allreduce is extra, and
the update takes as long as before, so the step is less than twice as fast.
"""

import draw as d

figure = d.Figure(432, __doc__, 'One device, 256 examples')

START, HEIGHT = 118, 42
FORWARD, BACKWARD, UPDATE, ALLREDUCE = 192, 384, 30, 28


def lane(k, y, share, wait=0):
    """Draw device `k` computing its shard of the batch; return the x at which its update begins."""
    figure.name(d.MARGIN, y + HEIGHT / 2, f'device {k}', k)
    turn, end = START + FORWARD * share, START + (FORWARD + BACKWARD) * share
    figure.part(START, y, turn - START, HEIGHT, k, 'forward')
    figure.part(turn, y, end - turn, HEIGHT, k, 'backward')
    figure.solid(end + wait, y, UPDATE, HEIGHT, k)
    return end + wait


ONE = 80
update = lane(0, ONE, 1)
end_one = update + UPDATE
figure.flag(update + UPDATE / 2, ONE, 'update')

figure.headline('Two devices, 128 examples each', 178)
TWO, STEP = 220, HEIGHT + 10
BOTTOM = TWO + STEP + HEIGHT
for k in range(2):
    update = lane(k, TWO + k * STEP, 1 / 2, wait=ALLREDUCE)
end_two = update + UPDATE
figure.bar(update - ALLREDUCE, TWO, ALLREDUCE, STEP + HEIGHT)
figure.exchange(update - ALLREDUCE / 2, TWO + 14, BOTTOM - 14)
figure.flag(update - ALLREDUCE / 2, TWO, 'allreduce', 'end')
figure.flag(update + UPDATE / 2, TWO, 'update', 'start')

# --- the time saved, and the time axis
figure.moment(end_one, ONE + HEIGHT + 4, BOTTOM + 28)
figure.moment(end_two, BOTTOM + 4, BOTTOM + 28)
figure.time_saved(end_two, end_one, (TWO + BOTTOM) / 2)
figure.time_axis(START, BOTTOM + 28)
