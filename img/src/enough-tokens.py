"""Enough tokens hide the allreduce: where the two lines cross, b is C / W.

A plot of time against the tokens on each device, for each billion parameters on an H100 with a port
of 400 Gb. The allreduce takes 100 ms, however many tokens there are. The backward pass rises from 0
in proportion to the tokens, and meets the allreduce at 9,890. With fewer tokens the difference is
exposed: it lengthens the step. With more, the allreduce is hidden.
"""

import draw as d

title = 'Computing grows with the tokens on a device, the allreduce does not'
figure = d.Figure(416, __doc__, title)

C, W, P = 395.6e12, 40e9, 1e9  # operations and bytes per second; parameters
LEFT, BOTTOM, MOST = 96, 344, 25_000  # the most tokens


def at(tokens, ms):
    return LEFT + tokens / MOST * (d.RIGHT - LEFT), BOTTOM - ms


def backward(tokens):
    return 4e3 * P * tokens / C


enough, allreduce = C / W, 4e3 * P / W
words = 'for each billion parameters, on an H100 with a port of 400 Gb'
figure.text(d.MARGIN, 66, words, size=d.SMALL, fill=d.MUTED)
corners = at(0, 0), at(0, allreduce), at(enough, allreduce)
path = 'M' + 'L'.join(' '.join(map(d.number, corner)) for corner in corners) + 'Z'
figure.add('path', d=path, fill=d.TINT[5])
figure.line(at(enough, 0), at(enough, allreduce), color=d.MUTED, dash='5 4')
figure.line(at(0, allreduce), at(MOST, allreduce), color=d.SHADE[5], width=2.5)
figure.line(at(0, 0), at(MOST, backward(MOST)), color=d.SHADE[0], width=2.5)
figure.arrow((LEFT, BOTTOM), (LEFT, 84))
figure.arrow((LEFT, BOTTOM), (d.RIGHT, BOTTOM))

figure.small(LEFT - 10, at(0, allreduce)[1], '100 ms', anchor='end')
figure.small(LEFT - 10, BOTTOM, '0', anchor='end')
figure.label(at(enough, 0)[0], BOTTOM + 20, f'b = C / W = {enough:,.0f}', bold=True)
figure.label(d.RIGHT, BOTTOM + 20, 'b: tokens on each device', anchor='end')
figure.label(*at(15_700, 215), 'backward pass: 4Pb / C', fill=d.SHADE[0], bold=True, anchor='end')
figure.label(*at(20_500, 82), 'allreduce: 4P / W', fill=d.SHADE[5], bold=True)
figure.label(*at(2_700, 78), 'exposed', bold=True)
figure.label(*at(20_500, 135), 'hidden', bold=True)
