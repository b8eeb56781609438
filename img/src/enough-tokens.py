"""Enough tokens hide the allreduce: where the two lines cross, b is C / W.

A plot of time against the tokens on a server, for Llama 3.1 70B on eight H100 with eight ports of
400 Gb. The allreduce takes 0.88 s, however many tokens there are. The backward pass rises from 0 in
proportion to the tokens, and meets the allreduce at 9,890. With fewer tokens the difference is
exposed: it lengthens the step. With more, the allreduce is hidden. Our job has 131,072.
"""

import draw as d

title = 'Computing grows with the tokens on a device, the allreduce does not'
figure = d.Figure(416, __doc__, title)

C, W, P = 8 * 395.6e12, 320e9, 70.6e9  # operations and bytes per second; parameters
LEFT, BOTTOM, MOST = 96, 344, 25_000  # the most tokens


def at(tokens, seconds):
    return LEFT + tokens / MOST * (d.RIGHT - LEFT), BOTTOM - 113 * seconds


def backward(tokens):
    return 4 * P * tokens / C


enough, allreduce = C / W, 4 * P / W
words = 'Llama 3.1 70B on a server with eight H100 and eight ports of 400 Gb'
figure.text(d.MARGIN, 66, words, size=d.SMALL, fill=d.MUTED)
corners = at(0, 0), at(0, allreduce), at(enough, allreduce)
path = 'M' + 'L'.join(' '.join(map(d.number, corner)) for corner in corners) + 'Z'
figure.add('path', d=path, fill=d.TINT[5])
figure.line(at(enough, 0), at(enough, allreduce), color=d.MUTED, dash='5 4')
figure.line(at(0, allreduce), at(MOST, allreduce), color=d.SHADE[5], width=2.5)
figure.line(at(0, 0), at(MOST, backward(MOST)), color=d.SHADE[0], width=2.5)
figure.arrow((LEFT, BOTTOM), (LEFT, 84))
figure.arrow((LEFT, BOTTOM), (d.RIGHT, BOTTOM))

figure.small(LEFT - 10, at(0, allreduce)[1], '0.88 s', anchor='end')
figure.small(LEFT - 10, BOTTOM, '0', anchor='end')
figure.label(at(enough, 0)[0], BOTTOM + 20, f'b = C / W = {enough:,.0f}', bold=True)
figure.label(d.RIGHT, BOTTOM + 20, 'b: tokens on a server', anchor='end')
figure.small(d.RIGHT, BOTTOM + 40, 'our job: 131,072, far to the right', anchor='end')
figure.label(*at(15_700, 1.9), 'backward pass: 4Pb / C', fill=d.SHADE[0], bold=True, anchor='end')
figure.label(*at(20_500, 0.72), 'allreduce: 4P / W', fill=d.SHADE[5], bold=True)
figure.label(*at(2_700, 0.69), 'exposed', bold=True)
figure.label(*at(20_500, 1.2), 'hidden', bold=True)
