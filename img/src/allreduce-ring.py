"""Ring allreduce on four devices: three rounds of reduce-scatter, three of all-gather.

Every array is cut into 4 slices. Device 0 holds 1 2 3 4, device 1 2 4 6 8, device 2 3 6 9 12,
device 3 4 8 12 16. In rounds 1 to 3 every device sends one slice to the next device in the ring, 0
to 1 to 2 to 3 to 0, which adds it to its own. In round 1 device i sends slice i - 1, then always
the slice that it has just added to. After three rounds device 0 holds the sum of slice 0, 10;
device 1 that of slice 1, 20; device 2 that of slice 2, 30; device 3 that of slice 3, 40. In rounds
4 to 6 these sums are passed around the ring until all devices hold 10 20 30 40.

k devices: 2 · (k − 1) rounds. In each round, every device sends 1/k of its array.
"""

from functools import partial

import draw as d
from lanes import CELL_H, DONE, LIVE, NEXT, OLD, cells, lane, legend, table

figure = d.Figure(902, __doc__)

K = 4
LEFT, SLICE, GRID = 132, 32, 158  # centre of the first cell; distance between slices, between grids
LANE_H, PITCH, LOOP = 48, 66, 14


def ring(top, states, looks, sends):
    """Draw the states of the four devices side by side, with the messages after each state."""
    rows = [lane(figure, top + k * PITCH, LANE_H, k) for k in range(K)]
    figure.hint(36, top - 32, 'slice', anchor='start')
    for n in range(K):
        x = [LEFT + n * GRID + j * SLICE for j in range(K)]
        for source in range(K if n < K - 1 else 0):
            send(rows, x[sends(n, source)], source, LEFT + (n + 1) * GRID - 31)
        cells(figure, x, rows, states[n], partial(looks, n), top - 32)


def send(rows, x, source, gap):
    """Draw an arrow down to the next device, or from the last one back to the first."""
    start = (x, rows[source] + CELL_H / 2)
    if source < K - 1:
        figure.arrow(start, (x, rows[source + 1] - CELL_H / 2))
    else:
        low, high = rows[-1] + LANE_H / 2 + LOOP, rows[0] - LANE_H / 2 - LOOP
        figure.arrow(start, (x, low), (gap, low), (gap, high), (x, high), (x, rows[0] - CELL_H / 2))


# --- run the algorithm itself, so that the figure shows its real numbers
state = table(K)
states = [state]
for turn in range(2 * (K - 1)):
    state = [list(row) for row in state]
    for i in range(K):
        j = (i - 1 - turn) % K
        kept = states[-1][(i + 1) % K][j] if turn < K - 1 else 0
        state[(i + 1) % K][j] = states[-1][i][j] + kept
    states.append(state)
assert state == [[10, 20, 30, 40]] * K


def reducing(n, k, j):
    """Return a number's look in state n: slice j starts on device j + 1 and ends on device j."""
    done = (k - j - 1) % K
    return OLD if done < n else DONE if n == K - 1 else NEXT if done == n else LIVE


def gathering(n, k, j):
    return DONE if (k - j) % K <= n else OLD


TOPS = (136, 532)
names = (
    'Reduce-scatter: every device sends a slice to the next, which adds it',
    'All-gather: the finished sums are passed on',
)
for row, (top, name) in enumerate(zip(TOPS, names)):
    figure.headline(name, top - 94)
    for n in range(K):
        title = f'Round {n + 1 + row * (K - 1)}' if n < K - 1 else ('One sum each', 'After')[row]
        figure.label(LEFT + 1.5 * SLICE + n * GRID, top - 60, title, size=d.LARGE, bold=True)
ring(TOPS[0], states[:K], reducing, lambda n, i: (i - 1 - n) % K)
ring(TOPS[1], states[K - 1 :], gathering, lambda n, i: (i - n) % K)

legend(figure, 826, (39, 236, 452, 618), 'still to be added', 'is sent in this round')
