"""Sums in the text of the chapters, and formulas in the tables of chapters 3 and 8, worked out."""

import html
import itertools
import json
import math
import re

import pytest
from checkouts import ROOT

from mgpu_helpers.collectives import OURS, count
from mgpu_helpers.scaling import COSTS, Link

UNITS = {
    'µs': 'e-6',
    'ms': 'e-3',
    's': '',
    'kB': 'e3',
    'MB': 'e6',
    'GB': 'e9',
    'bytes': '',
    '%': '',
}
UNIT = rf' ?({"|".join(UNITS)})(?!\w)'
SUM = rf'(?<![\w.,√(])(?<![·×+−/] )(\(*\d(?:{UNIT}|,\d{{3}}|[\d.()+−·×/ ⁹¹²])*)'
EQUATION = re.compile(rf'{SUM} = (?=([\d.,]*\d)(?:{UNIT})?(?! ?[+−·×/]))')
SIGNS = str.maketrans(dict(zip('−·×⁹¹²⌈⌉', ('-', '*', '*', '9', '1', '2', 'ceil(', ')'))))
SLOW = Link('all latency', latency=1.0, bandwidth=1e30)  # a message costs 1, whatever its length


def text_of(chapter):
    (path,) = (ROOT / 'notebooks').glob(f'{chapter:02}-*.ipynb')
    cells = json.loads(path.read_text(encoding='utf8'))['cells']
    text = '\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')
    return re.sub(r'\*|</?em>', '', html.unescape(text))


def worth(formula, **letters):
    """Evaluate a formula of the text with these values of its variables."""
    for written, python in (
        (rf'(?<=\d){UNIT}', lambda unit: UNITS[unit[1]]),
        (r'\\frac\{(.*?)\}\{(.*?)\}', r'(\1)/(\2)'),
        (r',(?=\d{3})|\s', ''),
        ('·10(?=[⁹¹])', 'e'),
        (r'log[₂2](\w)', r'lb(\1)'),
        (r'(?<=[\d)])(?=[(⌈]|(?!e[-\d⁹¹])[^\W\d])|(?<=[A-Z])(?=[a-z])', '*'),  # 2(k, Pb
    ):
        formula = re.sub(written, python, formula)
    return eval(formula.translate(SIGNS), {'ceil': math.ceil, 'lb': math.log2, **letters})


def same(written, wanted):
    """Whether a formula has the expected value, or a figure is it rounded."""
    exact = not re.fullmatch(r'[\d.,]+', written)
    half_a_digit = 0 if exact else 0.501 / 10 ** len(written.partition('.')[2])
    return worth(written) == pytest.approx(wanted, rel=1e-9, abs=half_a_digit)


def test_what_is_added_up_in_the_text_of_any_chapter_comes_to_what_it_says():
    equations = [once for chapter in range(1, 10) for once in EQUATION.findall(text_of(chapter))]
    assert len(equations) > 30
    for left, _, right, unit in equations:
        unit = unit if re.search(UNIT, left) else ''
        assert same(right, worth(left) / worth(f'1{unit}')), left


def test_tables_and_pictures_have_the_algorithms_formulas():
    row, shown = re.compile(r'^\| ([a-z, -]+) \| (.+) \| (.+) \|$', re.M), {}
    for chapter in (3, 8):
        for names, *formulas in row.findall(text_of(chapter)):
            names = names.replace(' and ', '_').replace('-', '_').split(', ')
            shown |= {(chapter, name): formulas for name in names if name in COSTS}
    assert len(shown) == 2 * len(COSTS)
    link, n = Link('x', 3e-6, 7e9), 64e4
    for name, k in itertools.product(COSTS, (2, 4, 64)):
        counted = count(OURS[name], k, 64)
        rounds, arrays = (worth(formula, k=k) for formula in shown[3, name])
        assert (rounds, 256 * arrays) == (counted.rounds, counted.busiest), name
        seconds = worth(shown[8, name][0], k=k, n=n, α=link.latency, W=link.bandwidth)
        assert seconds == pytest.approx(COSTS[name](k, n, link)), name
    drawn = re.compile(r'((?:2 · )?(?:⌈?log *2 *k⌉?|\(k − 1\))) (?:rounds|messages)')
    for name in COSTS.keys() - {'naive'}:
        svg = (ROOT / f'img/allreduce-{name.replace("_", "-")}.svg').read_text(encoding='utf8')
        (formula,) = drawn.findall(re.sub('<[^>]+>', ' ', svg))
        for k in (4, 64):
            assert worth(formula, k=k) == COSTS[name](k, 1, SLOW), name
