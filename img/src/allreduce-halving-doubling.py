"""Allreduce by halving and doubling on four devices: two of reduce-scatter, two of all-gather.

Every array is cut into 4 slices. Device 0 holds 1 2 3 4, device 1 2 4 6 8, device 2 3 6 9 12,
device 3 4 8 12 16. Round 1: 0 and 2 exchange halves, and so do 1 and 3: 0 and 1 continue with the
sums of the left half, 4 8 and 6 12; 2 and 3 with those of the right half, 12 16 and 18 24. Round
2: 0 and 1 exchange a quarter, and so do 2 and 3: each has the sum of one slice, 10, 20, 30 and 40.
Round 3: the same pairs exchange these. Round 4: 0 exchanges two slices with 2, and 1 with 3. All
hold 10 20 30 40.

k devices: 2 · log_2 k rounds. Every device sends a half, a quarter, … and back.
"""

import draw as d
import lanes

figure = d.Figure(818, __doc__)

K = 4
LEFT, SLICE, GRID = 132, 32, 240  # centre of the first cell; distance between slices, between grids
LANE_H, PITCH = 48, 60


def half(i, far):
    """Return the slices that device i keeps after an exchange with its partner at distance far."""
    return range(i // far * far, i // far * far + far)


def draw(top, titles, states, looks, distances, arrow):
    """Draw three states side by side, with arrows for the exchanges between partners."""
    rows = [lanes.lane(figure, top + k * PITCH, LANE_H, k) for k in range(K)]
    figure.hint(36, top - 22, 'slice', anchor='start')
    for n, (title, values, look) in enumerate(zip(titles, states, looks)):
        x = [LEFT + n * GRID + j * SLICE for j in range(K)]
        figure.label(x[1] + SLICE / 2, top - 52, title, size=d.LARGE, bold=True)
        if n < len(distances):
            for k in range(K):
                partner = rows[k ^ distances[n]]
                arrow(figure, x[-1] + 2, x[-1] + GRID - (K - 1) * SLICE - 2, rows[k], partner)
        lanes.cells(figure, x, rows, values, look, top - 22)


# --- run the algorithm itself, so that the figure shows its real numbers
state = lanes.table(K)
states = [state]
for far in (2, 1, 1, 2):  # first halving, then doubling
    before = state
    state = [list(row) for row in before]
    for k in range(K):
        if len(states) < 3:  # add the partner's values to the half that it keeps
            for j in half(k, far):
                state[k][j] += before[k ^ far][j]
        else:  # take the slices that its partner has finished
            for j in half(k ^ far, far):
                state[k][j] = before[k ^ far][j]
    states.append(state)
assert state == [[10, 20, 30, 40]] * K


def kept(far):
    """Return the look of each cell before an exchange at this distance; one half will be sent."""
    return lambda k, j: (
        lanes.NEXT if j in half(k ^ far, far) else lanes.LIVE if j in half(k, far) else lanes.OLD
    )


def done(far):
    """Return the look of each cell when device k has the finished sums of ``half(k, far)``."""
    return lambda k, j: lanes.DONE if j in half(k, far) else lanes.OLD


TOPS = (122, 474)
figure.headline('Halving: exchange half of what is left, and add', TOPS[0] - 82)
names = 'Before', 'After round 1', 'After round 2'
draw(TOPS[0], names, states[:3], (kept(2), kept(1), done(1)), (2, 1), lanes.send_and_add)
figure.headline('Doubling: the finished sums come back', TOPS[1] - 82)
names = 'After round 2', 'After round 3', 'After round 4'
draw(TOPS[1], names, states[2:], (done(1), done(2), done(4)), (1, 2), lanes.send_and_keep)
lanes.legend(figure, 738, (39, 248, 446, 606), 'is kept, and added to', 'is sent in this round')
