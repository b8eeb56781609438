"""Copies stay inside a machine; between machines, data travels as messages.

Two machines, A and B, each with two devices, gpu(0) and gpu(1), and a network card. Within a
machine, copyto copies an array from one device to the other, through memory or PCIe: in machine A
array w, at address 0x20 of gpu(0), to address 0x60 of gpu(1). An arrow from there towards machine B
ends in a cross at the edge of machine A: in machine B the same names and addresses mean something
else, gpu(0) holds an array v at address 0x20. Between the machines there is only a cable, from
network card to network card; on it travel messages, each with a key and numbers.

An array is an address in the memory of one machine. Another machine must be sent the
numbers themselves, and a key that both machines know.
"""

import draw as d

figure = d.Figure(446, __doc__, 'Copies stay inside a machine; between machines there are messages')

PANEL, TOP, HEIGHT = 290, 62, 286
DEVICE_W, DEVICE_Y, DEVICE_H = 102, TOP + 40, 134
ARRAY, ARRAY_W = DEVICE_Y + 58, 82
CARD_Y, CARD_H = TOP + 226, 46
CABLE = CARD_Y + CARD_H / 2
for m, array in enumerate('wv'):
    x, side = (d.MARGIN, d.RIGHT - PANEL)[m], (1, -1)[m]
    figure.rect(x, TOP, PANEL, HEIGHT, d.WHITE, d.DATA_EDGE, r=9, width=2.5)
    figure.text(x + 14, TOP + 26, f'machine {"AB"[m]}', bold=True)
    lefts = (x + 14, x + PANEL - 14 - DEVICE_W)
    centres = [left + DEVICE_W / 2 for left in lefts]
    for i, (address, name) in enumerate((('0x20', array), ('0x60', f'copy of {array}'))):
        k = 2 * m + i
        figure.device(lefts[i], DEVICE_Y, DEVICE_W, DEVICE_H, k, name='')
        figure.label(centres[i], DEVICE_Y + 18, f'gpu({i})', fill=d.SHADE[k], bold=True, mono=True)
        figure.data(centres[i] - ARRAY_W / 2, ARRAY - 17, ARRAY_W, 34, name)
        figure.small(centres[i], ARRAY + 34, 'at address')
        figure.small(centres[i], ARRAY + 54, address, mono=True)
    figure.arrow((centres[0] + ARRAY_W / 2, ARRAY), (centres[1] - ARRAY_W / 2, ARRAY), width=2)
    figure.small(x + PANEL / 2, ARRAY - 14, 'copyto', mono=True)
    # out through the card of the one machine, in through the card of the other
    inner = centres[1 - m]
    ends = [(inner, DEVICE_Y + DEVICE_H), (inner, CARD_Y)]
    figure.arrow(*(ends if m == 0 else ends[::-1]), width=2)
    style = {'size': d.SMALL, 'anchor': ('start', 'end')[m]}
    y = (DEVICE_Y + DEVICE_H + CARD_Y) / 2 + 5
    figure.text((x + 14, x + PANEL - 14)[m], y, 'through memory or PCIe', **style)
    figure.box(x + 14, CARD_Y, PANEL - 28, CARD_H, 'network card')

# --- the address that cannot cross, and the message that can
edge = d.MARGIN + PANEL
figure.arrow((edge - 14 - (DEVICE_W - ARRAY_W) / 2, ARRAY), (edge + 30, ARRAY), width=2)
figure.cross(edge, ARRAY)
middle = d.WIDTH / 2
words = ('The same names', 'and addresses', 'mean something', 'else over there.')
for i, line in enumerate(words):
    figure.text(middle, TOP + 20 + 18 * i, line, size=d.SMALL, anchor='middle')
figure.arrow((edge - 14, CABLE), (d.WIDTH - edge + 14, CABLE), width=3)
figure.label(middle, CABLE - 46, 'message', bold=True)
figure.data(middle - 49, CABLE - 28, 98, 56, 'key 3', '0.3 −1.2 …', size=d.SMALL)
figure.small(middle, CABLE + 46, 'network cable')
