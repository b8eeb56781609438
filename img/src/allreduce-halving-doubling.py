"""Draw the allreduce by halving and doubling: four devices, four slices, four steps."""

import draw as d
from lanes import CELL_W, DONE, LIVE, NEXT, OLD, cell, lane, send_and_add, send_and_keep

figure = d.Figure(
    818,
    'Allreduce by halving and doubling on four devices: two steps there, two back',
    'Every array is cut in 4 slices. Device 0 holds 1 2 3 4, device 1 2 4 6 8, device 2 3 6 9 12, '
    'device 3 4 8 12 16. Step 1: 0 and 2 exchange halves, and so do 1 and 3: 0 and 1 go on with '
    'the sums of the left half, 4 8 and 6 12, 2 and 3 with those of the right half, 12 16 and 18 '
    '24. Step 2: 0 and 1 exchange a quarter, and so do 2 and 3: each has the sum of one slice, 10, '
    '20, 30 and 40. Step 3: the same pairs exchange these, step 4: 0 and 2, 1 and 3 exchange two '
    'slices. All hold 10 20 30 40.',
)

K = 4
LEFT, SLICE, GRID = 132, 32, 240  # middle of the first cell, from slice to slice, from grid to grid
LANE_H, PITCH = 48, 60


def half(i, far):
    """List the slices that device i goes on with at a distance."""
    return range(i // far * far, i // far * far + far)


def draw(top, titles, states, looks, distances, arrow):
    """Draw three states side by side, and between them what partners at a distance exchange."""
    rows = [lane(figure, top + k * PITCH, LANE_H, k) for k in range(K)]
    figure.hint(36, top - 22, 'slice', anchor='start')
    for n, (title, values, look) in enumerate(zip(titles, states, looks)):
        x = [LEFT + n * GRID + j * SLICE for j in range(K)]
        figure.label(x[1] + SLICE / 2, top - 52, title, size=d.LARGE, bold=True)
        for j in range(K):
            figure.hint(x[j], top - 22, str(j))
        if n < len(distances):
            for k in range(K):
                partner = rows[k ^ distances[n]]
                arrow(figure, x[-1] + 2, x[-1] + GRID - (K - 1) * SLICE - 2, rows[k], partner)
        for k in range(K):
            for j in range(K):
                cell(figure, x[j], rows[k], values[k][j], k, look(k, j))


# --- the algorithm itself, so that the numbers are its numbers
state = [[(k + 1) * (j + 1) for j in range(K)] for k in range(K)]
states = [state]
for far in (2, 1):  # halving: each adds, in the half that it goes on with, what its partner has
    state = [
        [v + state[k ^ far][j] if j in half(k, far) else v for j, v in enumerate(state[k])]
        for k in range(K)
    ]
    states.append(state)
for far in (1, 2):  # doubling: each takes over what its partner has finished
    state = [
        [state[k ^ far][j] if j in half(k ^ far, far) else v for j, v in enumerate(state[k])]
        for k in range(K)
    ]
    states.append(state)
assert state == [[10, 20, 30, 40]] * K


def kept(far):
    """Make the looks of a state in which this distance comes next: the partner's half is sent."""
    return lambda k, j: NEXT if j in half(k ^ far, far) else LIVE if j in half(k, far) else OLD


def done(far):
    """Make the looks of a state in which device k has all sums of ``half(k, far)``."""
    return lambda k, j: DONE if j in half(k, far) else OLD


TOPS = (122, 474)
figure.headline('Halving: exchange half of what is left, and add', TOPS[0] - 82)
draw(
    TOPS[0],
    ('Before', 'After step 1', 'After step 2'),
    states[:3],
    (kept(2), kept(1), done(1)),
    (2, 1),
    send_and_add,
)
figure.headline('Doubling: the finished sums come back', TOPS[1] - 82)
draw(
    TOPS[1],
    ('After step 2', 'After step 3', 'After step 4'),
    states[2:],
    (done(1), done(2), done(4)),
    (1, 2),
    send_and_keep,
)

legend = (
    (9, LIVE, 'is kept, and added to'),
    (9, NEXT, 'is sent in this step'),
    (9, OLD, 'out of date'),
    (40, DONE, 'finished sum'),
)
for x, (value, look, meaning) in zip((39, 248, 446, 606), legend):
    cell(figure, x, 738, value, 2, look)
    figure.label(x + CELL_W / 2 + 8, 738, meaning, size=d.SMALL, anchor='start')
figure.caption('k devices: 2 · log_2 k steps. Every device sends a half, a quarter, … and back.')
figure.save(__file__)
