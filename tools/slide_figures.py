"""Prepare figures for slides: find their shape, and cut a tall drawing in two."""

import base64
import contextlib
import re
import struct
from html import escape
from xml.etree import ElementTree

TALL, BETWEEN = 1.25, 20  # cut below this aspect ratio, at a gap of this many pixels


def drawing_of(figure, folder):
    """Return a figure's SVG text (in its Markdown or in a file), its PNG's bytes, or None."""
    embedded = re.search(r'data:image/(png|svg\+xml);base64,([^)"\s]+)', figure)
    address = re.search(r'\]\(([^)\s]+\.svg)\)', figure)
    if embedded:
        data = base64.b64decode(embedded[2])
        return data if embedded[1] == 'png' else data.decode()
    with contextlib.suppress(OSError):
        return (folder / address[1]).read_text(encoding='utf-8') if address else None
    return None


def size_of(drawing):
    """Return a drawing's width and height in pixels."""
    if isinstance(drawing, bytes):
        return struct.unpack('>II', drawing[16:24])
    found = re.search(r'viewBox="\S+ \S+ (\S+) ([^"\s]+)"', drawing or '')
    return tuple(map(float, found.groups())) if found else (2, 1)


def aspect_ratio(figure, folder):
    """Return width over height of a figure: an SVG file, part of one, or an embedded PNG."""
    width, height = size_of(drawing_of(figure, folder))
    return width / height


def heights_in(drawing):
    """Return the top and bottom of each shape in one of our SVGs."""
    found = []
    for shape in list(ElementTree.fromstring(drawing))[3:]:  # after title, description and card
        of = {name: float(shape.get(name, 0)) for name in ('y', 'height', 'cy', 'r', 'font-size')}
        if path := shape.get('d'):
            ys = [float(y) for y in re.findall(r'-?[\d.]+', path)[1::2]]
            found.append((min(ys), max(ys)))
        elif shape.tag.endswith('text'):
            found.append((of['y'] - of['font-size'], of['y'] + of['font-size'] / 3))
        else:
            top = of['y'] + of['cy'] - of['r']
            found.append((top, top + of['height'] + 2 * of['r']))
    return sorted(found)


def cut(figure, folder):
    """Cut a tall drawing in two at a gap between shapes, so that both halves can be larger."""
    drawing, reached, gaps = drawing_of(figure, folder), 0, []
    width, height = size_of(drawing)
    if isinstance(drawing, bytes) or width >= TALL * height:
        return [figure]
    for top, bottom in heights_in(drawing):
        if reached and top - reached >= BETWEEN:
            gaps.append((reached + top) / 2)
        reached = max(reached, bottom)
    middle = min(gaps, key=lambda y: abs(y - height / 2), default=0)
    if not 0.3 < middle / height < 0.7:
        return [figure]
    alt = escape(re.match(r'!\[([^]]*)', figure)[1])
    parts = (part_of_svg(drawing, *ends) for ends in ((0, middle), (middle, height)))
    return [f'<p><img src="data:image/svg+xml;base64,{data}" alt="{alt}"></p>' for data in parts]


def part_of_svg(svg, top, bottom):
    """Return the part of a drawing between two heights, on a separate card."""
    size = f'width="760" height="{bottom - top:g}" viewBox="0 {top:g} 760 {bottom - top:g}"'
    svg = re.sub(r'width="760" height="\S+" viewBox="[^"]*"', size, svg, count=1)
    card = f'y="{top + 0.75:g}" width="758.5" height="{bottom - top - 1.5:g}"'
    svg = re.sub(r'y="0.75" width="758.5" height="\S+"', card, svg, count=1)
    return base64.b64encode(svg.encode()).decode()
