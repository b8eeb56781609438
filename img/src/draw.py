"""Draw the course's figures as SVG text, from a few shapes.

A figure is byte for byte the same on every machine; its colours are those of the plots. An SVG
shown through ``<img>`` cannot follow the page's theme, so every figure is a light card with dark
text, which is readable on a white page and on a black one.

The shapes mean the same in every figure: a tinted panel is a device (each has its own colour), a
grey box is data, a white box is a computation, a square is parameters, a circle is a gradient.
"""

import math
import re
from xml.sax.saxutils import escape

from mgpu_helpers.display import CYCLE, EDGE, GREY, INK, LOOK, SOFT, WHITE

WIDTH = 760  # the width of the text in a README and a notebook; figures are shown at this size
MARGIN = 24
RIGHT, INNER = WIDTH - MARGIN, WIDTH - 2 * MARGIN  # where the margin begins, the width between
SMALL, NORMAL, LARGE = 13, 14, 16

SANS = 'system-ui, "Helvetica Neue", Arial, sans-serif'
MONO = 'ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace'

CARD, LINE, MUTED = LOOK['facecolor'], SOFT, '#525252'
DATA, DATA_EDGE = '#E3E1DC', GREY
STOP = '#B3261E'  # the colour of a cross, not of a device

# Each device's colour, its tint, and a dark shade for text on the tint.
SOLID = CYCLE
TINT = ('#DDECF7', '#FCEED2', '#D8F0E8', '#F8E6F0', '#E2F3FD', '#FBE2D3')
SHADE = ('#004F7C', '#704A00', '#00604A', '#83355F', '#1D5F86', '#8A3C00')


def number(value):
    """Format a coordinate with at most two decimals and no trailing zeros."""
    return f'{round(value, 2):g}'


def towards(start, end, distance):
    """Return the point at `distance` from `start` in the direction of `end`."""
    length = math.dist(start, end)
    return tuple(a + (b - a) * distance / length for a, b in zip(start, end, strict=True))


def painted(fill, edge, width, dash=None):
    """Return a shape's style as SVG attributes; without an edge it has no stroke width."""
    width = width if edge else None
    return {'fill': fill, 'stroke': edge, 'stroke_width': width, 'stroke_dasharray': dash}


class Figure:
    """A figure: a card of `WIDTH` by `height` pixels, with shapes on it."""

    def __init__(self, height, doc, headline=None):
        """Draw the card; `doc` is the script's docstring: title, description and caption."""
        self.height = height
        title, desc, *caption = doc.strip().split('\n\n')
        self.title, self.desc = title.rstrip('.'), ' '.join(desc.split('\n'))
        self.caption = ''.join(caption).split('\n')
        self.shapes = []
        self.rect(0.75, 0.75, WIDTH - 1.5, height - 1.5, CARD, EDGE, r=12)
        if headline:
            self.headline(headline)

    def add(self, tag, content='', **attributes):
        text = ''.join(
            f' {name.replace("_", "-")}="{number(v) if isinstance(v, (int, float)) else v}"'
            for name, v in attributes.items()
            if v is not None
        )
        self.shapes.append(f'<{tag}{text}>{content}</{tag}>' if content else f'<{tag}{text}/>')

    # --- shapes ---------------------------------------------------------------------------

    def rect(self, x, y, w, h, fill=WHITE, edge=LINE, r=5.0, width=1.5, dash=None):
        drawn = painted(fill, edge, width, dash)
        self.add('rect', x=x, y=y, width=w, height=h, rx=r or None, **drawn)

    def circle(self, cx, cy, r, fill=WHITE, edge=LINE, width=1.5):
        self.add('circle', cx=cx, cy=cy, r=r, **painted(fill, edge, width))

    def text(self, x, y, content, size=NORMAL, anchor='start', fill=INK, bold=False, mono=False):
        """Draw one line of text on the baseline `y`; ``g_0`` becomes a g with the subscript 0."""
        content = escape(content)
        if not mono:
            down = f'<tspan dy="{number(size * 0.22)}" font-size="{max(SMALL, size - 4)}">'
            up = f'<tspan dy="{number(-size * 0.22)}">'
            content = re.sub(r'_(\w)([^_<]*)', rf'{down}\1</tspan>{up}\2</tspan>', content)
            content = content.replace(f'{up}</tspan>', '')
        look = {
            'text_anchor': None if anchor == 'start' else anchor,
            'font_weight': '700' if bold else None,
            'font_family': escape(MONO, {'"': '&quot;'}) if mono else None,
        }
        self.add('text', content, x=x, y=y, font_size=size, fill=fill, **look)

    def label(self, cx, cy, *lines, size=NORMAL, leading=1.3, **style):
        """Draw lines of text as a block centred on (`cx`, `cy`)."""
        # 0.36: half the height of a capital letter, so that the capitals are centred, not the box
        # of the font, which browsers measure differently.
        top = cy + 0.36 * size - (len(lines) - 1) * size * leading / 2
        style = {'anchor': 'middle', 'size': size, **style}
        for i, line in enumerate(lines):
            self.text(cx, top + i * size * leading, line, **style)

    def line(self, *points, color=LINE, width=1.5, dash=None, r=8.0):
        path = 'M' + ' '.join(map(number, points[0]))
        for i, corner in enumerate(points[1:-1]):
            before, after = points[i], points[i + 2]
            radius = min(r, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
            into, out = towards(corner, before, radius), towards(corner, after, radius)
            path += f'L{" ".join(map(number, into))}Q{" ".join(map(number, (*corner, *out)))}'
        path += 'L' + ' '.join(map(number, points[-1]))
        self.add('path', d=path, **painted('none', color, width, dash))

    def arrow(self, *points, color=LINE, width=1.5, dash=None, both=False, r=8.0):
        """Draw a line with an arrow head whose tip is the last point."""
        points = list(points)
        heads = [(points[-1], points[-2])] + ([(points[0], points[1])] if both else [])
        points[-1] = towards(points[-1], points[-2], 7)
        if both:
            points[0] = towards(points[0], points[1], 7)
        self.line(*points, color=color, width=width, dash=dash, r=r)
        for tip, origin in heads:
            angle = math.atan2(origin[1] - tip[1], origin[0] - tip[0])
            path = 'M' + ' '.join(map(number, tip))
            for side in (angle + 0.42, angle - 0.42):
                corner = tip[0] + 9.5 * math.cos(side), tip[1] + 9.5 * math.sin(side)
                path += 'L' + ' '.join(map(number, corner))
            self.add('path', d=path + 'Z', fill=color)

    def curve(self, start, end, color=LINE, dash=None):
        """Draw an arrow that starts and ends horizontally, S-shaped if the heights differ."""
        (x0, y0), (x1, y1) = start, end
        self.arrow((x1 - 8, y1), end, color=color)
        middle = (x0 + x1 - 7) / 2
        points = (middle, y0, middle, y1, x1 - 7, y1)
        path = f'M{number(x0)} {number(y0)}C{" ".join(map(number, points))}'
        self.add('path', d=path, **painted('none', color, 1.5, dash))

    # --- labels ---------------------------------------------------------------------------

    def headline(self, content, y=42, x=MARGIN):
        self.text(x, y, content, size=LARGE, bold=True)

    def small(self, cx, cy, *lines, **style):
        self.label(cx, cy, *lines, size=SMALL, **style)

    def hint(self, cx, cy, *lines, **style):
        self.small(cx, cy, *lines, fill=MUTED, **style)

    def name(self, x, cy, content, k=None, **style):
        """Write a lane's name from `x` to the right, in the colour of device `k`."""
        fill = INK if k is None else SHADE[k]
        self.label(x, cy, content, fill=fill, bold=True, anchor='start', **style)

    def badge(self, cx, cy, mark, r=14, size=NORMAL):
        self.circle(cx, cy, r, INK, None)
        self.label(cx, cy, str(mark), size=size, fill=WHITE, bold=True)

    def stage(self, n, cy, name, *lines):
        """Write stage `n` in the left column, with its number at height `cy`."""
        self.badge(MARGIN + 14, cy, n)
        self.text(MARGIN + 40, cy + 5, name, bold=True)
        for i, line in enumerate(lines):
            self.text(MARGIN + 40, cy + 24 + i * 18, line, size=SMALL, fill=MUTED)

    def case(self, cy, letter, name):
        self.badge(MARGIN + 14, cy, letter)
        self.headline(name, cy + 5, MARGIN + 38)

    # --- time lines -----------------------------------------------------------------------

    def part(self, x, y, w, h, k, *lines, **style):
        self.rect(x, y, w, h, TINT[k], SOLID[k], r=0)
        if lines:
            self.label(x + w / 2, y + h / 2, *lines, **style)

    def bar(self, x, y, w, h, *lines, edge=None, r=0, **style):
        """Draw a dark bar with white text: a message, or something that several devices share."""
        self.rect(x, y, w, h, LINE, edge, r=r)
        if lines:
            self.label(x + w / 2, y + h / 2, *lines, **{'fill': WHITE, 'bold': True, **style})

    def solid(self, x, y, w, h, k):
        """Draw an update of device `k`, which is too short for a label inside."""
        self.rect(x, y, w, h, SOLID[k], SOLID[k], r=0)

    def idle(self, x, y, w, h):
        self.rect(x, y, w, h, CARD, DATA_EDGE, r=0, width=1, dash='4 4')

    def flag(self, x, y, name, anchor='middle'):
        """Label a part that is too narrow for text: above it, where its top is at `y`."""
        self.line((x, y), (x, y - 9))
        shift = {'start': -6, 'middle': 0, 'end': 6}[anchor]
        self.text(x + shift, y - 15, name, size=SMALL, anchor=anchor)

    def exchange(self, x, y0, y1):
        self.arrow((x, y0), (x, y1), both=True, color=WHITE)

    def moment(self, x, y0, y1):
        self.line((x, y0), (x, y1), color=DATA_EDGE, dash='5 4')

    def time_axis(self, x, y, gap=12):
        self.arrow((x, y), (RIGHT, y))
        self.label(x - gap, y, 'time', fill=MUTED, anchor='end')

    def time_saved(self, fast, slow, y):
        self.arrow((fast + 4, y), (slow - 4, y), both=True)
        self.label((fast + slow) / 2, y - 16, 'time saved', bold=True)

    def divider(self, x, y0, y1):
        self.line((x, y0), (x, y1), color='#D5D3CD')

    # --- the course's objects -------------------------------------------------------------

    def panel(self, x, y, w, h):
        self.rect(x, y, w, h, WHITE, DATA_EDGE, r=9)

    def device(self, x, y, w, h, k, name=None, mono=False):
        self.rect(x, y, w, h, TINT[k], SOLID[k], r=9)
        if name != '':
            self.text(x + 12, y + 21, name or f'device {k}', fill=SHADE[k], bold=True, mono=mono)

    def box(self, x, y, w, h, *lines, k=None, size=NORMAL, bold=False, **style):
        self.rect(x, y, w, h, WHITE, LINE if k is None else SOLID[k])
        self.label(x + w / 2, y + h / 2, *lines, size=size, bold=bold, **style)

    def data(self, x, y, w, h, *lines, size=NORMAL, **style):
        self.rect(x, y, w, h, DATA, DATA_EDGE, r=0)
        self.label(x + w / 2, y + h / 2, *lines, size=size, **style)

    def parameters(self, cx, cy, name='W', k=None, side=30):
        edge = INK if k is None else SOLID[k]
        self.rect(cx - side / 2, cy - side / 2, side, side, WHITE, edge, r=0, width=2)
        self.label(cx, cy, name, size=15, bold=True)

    def gradient(self, cx, cy, name, k=None, r=18):
        self.circle(cx, cy, r, WHITE, INK if k is None else SOLID[k], width=2)
        self.label(cx, cy, name, size=LARGE)

    def plus(self, cx, cy, sign='+'):
        self.circle(cx, cy, 14, LINE, None)
        self.label(cx, cy, sign, size=18, fill=WHITE, bold=True)

    def cross(self, cx, cy, r=9):
        for color, width in ((CARD, 7), (STOP, 3.5)):  # a border separates it from the background
            for rise in (r, -r):
                self.line((cx - r, cy + rise), (cx + r, cy - rise), color=color, width=width)

    def matrix(self, x, y, rows, w, h, k=None):
        """Draw a table of numbers with cells of `w` by `h`, grey or in device `k`'s colour."""
        fill, edge = (DATA, DATA_EDGE) if k is None else (WHITE, SOLID[k])
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                self.rect(x + j * w, y + i * h, w, h, fill, edge, r=0, width=1)
                self.label(x + (j + 0.5) * w, y + (i + 0.5) * h, str(value))
        self.rect(x, y, w * len(rows[0]), h * len(rows), 'none', edge, r=0)

    # --- the result -----------------------------------------------------------------------

    def save(self, path):
        """Draw the caption along the bottom, write the figure, and print its size."""
        for i, line in enumerate(reversed(self.caption)):
            if line:
                self.text(MARGIN, self.height - 26 - 20 * i, line, fill=MUTED)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{self.height}" '
            f'viewBox="0 0 {WIDTH} {self.height}" role="img" aria-labelledby="title desc" '
            f'font-family="{escape(SANS, {chr(34): "&quot;"})}">'
        )
        title = f'<title id="title">{escape(self.title)}</title>'
        desc = f'<desc id="desc">{escape(self.desc)}</desc>'
        lines = [head, title, desc, *self.shapes, '</svg>\n']
        path.write_bytes('\n'.join(lines).encode())
        print(f'{path.name}: {path.stat().st_size / 1024:.1f} KiB')
