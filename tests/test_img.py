"""The figures: drawn by the scripts in img/src, well formed, and laid out without collisions."""

import re
import shutil
import sys
import xml.etree.ElementTree as ET
from itertools import combinations

import numpy as np
import pytest
from checkouts import ROOT, call
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextPath, text_to_path
from matplotlib.transforms import Bbox

IMG = ROOT / 'img'
FIGURES = sorted(path.stem for path in IMG.glob('*.svg'))
SVG = '{http://www.w3.org/2000/svg}'
WIDTH, MARGIN = 760, 20


def test_scripts_redraw_their_figures_byte_for_byte(tmp_path):
    # The scripts alone: a figure can only come from running them.
    shutil.copytree(IMG / 'src', tmp_path / 'src')
    for names, drawn in ((['lenet'], ['lenet']), ([], FIGURES)):
        # Another hash seed and locale than ours: neither may change a byte.
        command = sys.executable, tmp_path / 'src/all.py', *names
        done = call(tmp_path.parent, *command, PYTHONHASHSEED=7, LC_ALL='C')
        assert done.returncode == 0, done.stderr
        assert sorted(path.stem for path in tmp_path.glob('*.svg')) == drawn
    for path in tmp_path.glob('*.svg'):
        assert path.read_bytes() == (IMG / path.name).read_bytes(), path.name


def text_box(element):
    """The (left, top, right, bottom) of a text in DejaVu Sans, wider than other systems' fonts."""
    family = 'DejaVu Sans Mono' if element.get('font-family') else 'DejaVu Sans'
    x, y, top, bottom, size = 0.0, 0.0, 0.0, 0.0, float(element.get('font-size'))
    runs = [(element.text, 0.0, size)]
    for span in element:
        runs.append((span.text, float(span.get('dy')), float(span.get('font-size', size))))
        assert span.tail is None
    for words, shift, run_size in runs:
        y += shift
        if words:
            weight = element.get('font-weight', 'normal')
            font = FontProperties(family=family, weight=weight, size=run_size)
            heights = TextPath((0, 0), words, prop=font, usetex=False).vertices[:, 1]
            top, bottom = min(top, y - heights.max()), max(bottom, y - heights.min())
            x += text_to_path.get_text_width_height_descent(words, font, False)[0]
    left = float(element.get('x')) - {'middle': x / 2, 'end': x}.get(element.get('text-anchor'), 0)
    baseline = float(element.get('y'))
    return left, baseline + top, left + x, baseline + bottom


def shape_box(element):
    """The (left, top, right, bottom) of a rectangle or a circle."""
    if element.tag == f'{SVG}rect':
        x, y, w, h = (float(element.get(key)) for key in ('x', 'y', 'width', 'height'))
        return x, y, x + w, y + h
    cx, cy, r = (float(element.get(key)) for key in ('cx', 'cy', 'r'))
    r *= 0.93  # the corners of a text's box lie outside its letters
    return cx - r, cy - r, cx + r, cy + r


def crosses(element, box):
    """Whether a path runs through the box; a curve counts as the line through its points."""
    points = np.reshape(re.findall(r'-?[\d.]+', element.get('d')), (-1, 2)).astype(float)
    closed = [*points, points[0]] if element.get('d').endswith('Z') else points
    return Path(closed).intersects_bbox(Bbox.from_extents(box), filled=False)


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def inside(a, b):
    return b[0] <= a[0] and b[1] <= a[1] and a[2] <= b[2] and a[3] <= b[3]


def carries(shape, box):
    filled = shape.tag in (f'{SVG}rect', f'{SVG}circle') and shape.get('fill') != 'none'
    return filled and inside(box, shape_box(shape))


@pytest.mark.parametrize('name', FIGURES)
def test_a_figure_stands_by_itself_and_nothing_runs_into_its_text(name):
    root = ET.parse(IMG / f'{name}.svg').getroot()
    height = int(root.get('height'))
    assert root.get('viewBox') == f'0 0 {WIDTH} {height}' and int(root.get('width')) == WIDTH
    title, desc = root[:2]
    assert root.get('aria-labelledby') == f'{title.get("id")} {desc.get("id")}' == 'title desc'
    assert len(title.text) > 10 and len(desc.text) > 40
    shapes = list(root)[2:]
    card = shapes[0]  # a light background of its own
    assert float(card.get('width')) > WIDTH - 3 and float(card.get('height')) > height - 3
    assert card.tag == f'{SVG}rect' and re.fullmatch('#([EF][0-9A-F]){3}', card.get('fill'))
    text = (IMG / f'{name}.svg').read_text()  # nothing from elsewhere
    assert not re.search(r'<(image|script|style|use|foreignObject)|href|url\(', text)
    texts = [(i, s, text_box(s)) for i, s in enumerate(shapes) if s.tag == f'{SVG}text']
    # A headline, or that of a first case beside its letter.
    heads = [t for _, t, _ in texts if t.get('font-weight') and float(t.get('y')) < 50]
    assert any(t.get('x') in ('24', '62') for t in heads), 'no headline'
    for (_, a, box_a), (_, b, box_b) in combinations(texts, 2):
        assert not overlap(box_a, box_b), f'{a.text!r} overlaps {b.text!r}'
    for i, element, box in texts:
        name_of = ''.join(element.itertext())
        sizes = [element, *(span for span in element if span.get('font-size'))]
        assert min(float(s.get('font-size')) for s in sizes) >= 13, name_of
        assert inside(box, (MARGIN, MARGIN, WIDTH - MARGIN, height - MARGIN)), name_of
        # From the shape that the text stands on: no edge or line runs through the text, and nothing
        # that is drawn later covers it.
        on = next(k for k in reversed(range(i)) if carries(shapes[k], box))
        for shape in shapes[on + 1 :]:
            if shape.tag == f'{SVG}path':
                assert not crosses(shape, box), f'a line in {name_of!r}'
            elif shape.tag != f'{SVG}text' and shape.get('fill') != 'none':
                assert not overlap(box, shape_box(shape)), f'{name_of!r} and the edge of a shape'
