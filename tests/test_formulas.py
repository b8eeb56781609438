"""Formulas and figures in the text of chapters 3 and 8: read there, and worked out here.

What is code is compared elsewhere: cells with ``#@save`` with the package, and its formulas with
algorithms counted message by message. What a cell prints is nbval's.
"""

import html
import itertools
import json
import math
import re

import pytest
from checkouts import ROOT

from mgpu_helpers import scaling as s
from mgpu_helpers.collectives import OURS, allreduce_ring, count, fill_buckets
from mgpu_helpers.collectives.algorithms import send
from mgpu_helpers.scaling import COSTS, MACHINES, MODELS, Layer, Link, Machine, Model

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
THIN = Link('all bandwidth', latency=1e-30, bandwidth=1.0)  # a message costs its length
P3, RESNET = MACHINES['p3.16xlarge'], MODELS['ResNet-50']


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


def same(written, wanted, **letters):
    """Whether a formula has the expected value, a figure is it rounded, or a word is that word."""
    exact = not re.fullmatch(r'[\d.,]+', written)
    half_a_digit = 0 if exact else 0.501 / 10 ** len(written.partition('.')[2])
    return worth(written, **letters) == pytest.approx(wanted, rel=1e-9, abs=half_a_digit)


def compare(chapter, rows, **letters):
    """Look sentences up, where # is a formula or a figure; behind them is what each must be."""
    text = text_of(chapter)
    for sentence, *wanted in rows:
        pattern = re.escape(sentence).replace(r'\#', '(.{1,60}?)').replace('…', '[^|]{0,150}?')
        printed = [one.groups() for one in re.finditer(pattern, text)]
        assert len(printed) == 1, sentence
        for written, value in zip(printed[0], wanted, strict=True):
            assert same(written, value, **letters), (sentence, written, value)


def test_what_is_added_up_in_the_text_of_any_chapter_comes_to_what_it_says():
    equations = [once for chapter in range(1, 9) for once in EQUATION.findall(text_of(chapter))]
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
        steps, arrays = (worth(formula, k=k) for formula in shown[3, name])
        assert (steps, 256 * arrays) == (counted.steps, counted.busiest), name
        seconds = worth(shown[8, name][0], k=k, n=n, α=link.latency, B=link.bandwidth)
        assert seconds == pytest.approx(COSTS[name](k, n, link)), name
    drawn = re.compile(r'((?:2 · )?(?:⌈?log *2 *k⌉?|\(k − 1\))) (?:steps|messages)')
    for name in COSTS.keys() - {'naive'}:
        svg = (ROOT / f'img/allreduce-{name.replace("_", "-")}.svg').read_text(encoding='utf8')
        (formula,) = drawn.findall(re.sub('<[^>]+>', ' ', svg))
        for k in (4, 64):
            assert worth(formula, k=k) == COSTS[name](k, 1, SLOW), name


def test_formulas_in_sentences_are_those_of_the_package():
    """A # stands for a formula, and behind the sentence stands what each of them is worth."""
    k, n, m, p, w, servers, b, P = 8, 3e6, 7, 4, 6, 5, 9, 1e9
    C, M, wire = 1e13, 2e10, Link('wire', 3e-6, 7e9)
    letters = {'k': k, 'n': n, 'm': m, 'p': p, 'w': w, 'b': b, 'P': P, 'C': C, 'M': M}
    letters |= {'α': wire.latency, 'B': wire.bandwidth, 'W': wire.bandwidth}
    steps, ports = ({f: COSTS[f](k, 1, link) for f in COSTS} for link in (SLOW, THIN))
    naive = count(OURS['naive'], k, 1)
    dense, board = Model('dense', [Layer('all', int(P), 2 * P)], 2), Machine('board', C, wire)
    sent = s.ring(10**10, dense.nbytes, Link('no latency', 1e-30, wire.bandwidth))
    backward, grow = s.step(dense, b, 1, board).backward, C / wire.bandwidth
    one_by_one, packing = m * s.ring(k, n, wire), 2 * m * n / M
    saved = one_by_one - s.ring(k, m * n, wire)
    sixteen = [COSTS[f](16, n, wire) for f in ('butterfly', 'halving_doubling')]
    in_3 = (
        ('it carries # whole arrays in each', naive.busiest / 4),
        ('their bytes cost twice: # and # arrays in', ports['naive'], ports['tree']),
        ('equal where # = #, so n', *sixteen),
        (', so n = # = 1.88', s.meeting_point(16, wire)),
        ('must send at least # bytes', n * ports['ring']),
        ('One by one: #. In a bucket: #. The', one_by_one, one_by_one - saved + packing),
        ('So it pays if s < #. With', saved / packing * n),
    )
    in_8 = (
        ('the backward pass takes # seconds', backward),
        ('bytes a second that takes #.', sent),
        ('$$b \\; > \\; #$$', grow),
        ('twice the bytes: b > #. C is', 2 * grow),
        ('it saves # messages', steps['halving_doubling'] - steps['butterfly']),
        ('and pays with # arrays', ports['butterfly'] - ports['halving_doubling']),
        ('w slices of # bytes in', s.parameter_servers(w, servers, n, THIN, True) / w),
        ('each device waits for # of the', s.bubble(p, m)),
        ('√(# · time to save', (s.checkpoint_interval(1, 1) ** 2)),
    )
    compare(3, in_3, s=n, **letters)  # s: bytes of a gradient
    compare(8, in_8, s=servers, **letters)


def test_figures_of_chapter_3():
    """Figures that no cell prints and that follow from no calculation in the text."""

    def yours(data):  # an exercise's
        send([(data[i ^ 1], data[i]) for i in range(4)], add=True)
        allreduce_ring(data[::2])
        send([(data[0], data[1]), (data[2], data[3])], add=False)

    own = count(yours, 4, 1000)
    sizes = [720, 80, 100_000, 200, 409_600, 512, 5120, 40]  # the chapter prints them
    buckets = [len(fill_buckets(sizes, limit)) for limit in (1, 100_000, 1_000_000)]
    late, long = (COSTS['halving_doubling'](6, 1, link) for link in (SLOW, THIN))
    border = 0.004 * 25e6 * (10 - late) / (long - s.ring(6, 1, THIN))  # the ring has ten steps
    one = s.memory_per_device(RESNET, 1, 1)
    image, kept = one.activations / 1e6, (one.total - one.activations) / 1e9
    images = int((16 - kept) * 1e3 / image)
    rows = (
        ('find # messages in # steps and # bytes', own.messages, own.steps, own.busiest),
        ('bytes? And in batches of 32? (#, # and # with', *(2 * 94 * number for number in buckets)),
        ('it is near # kB.', border / 1e3),
        ('pass needs, take # MB an image. How many images fit into 16 GB', image),
        ('their number. # GB / # MB = # images', 16 - kept, image, images),
        ('It takes # devices, or', math.ceil(8192 / images)),
    )
    compare(3, rows)


def test_figures_of_chapter_8():
    """Figures that no cell prints and that follow from no calculation in the text."""
    alone = 3 * s.step(MODELS['LeNet'], 256, 1, MACHINES['V100 on 10 Gb Ethernet']).forward
    uses, kept_up = RESNET.flops / 2 / RESNET.parameters, P3.flops / 1e12
    real = 2 * P3.flops / P3.network.bandwidth / uses
    hide = s.hiding_batch(RESNET, 64, P3, 'hierarchical')
    failure = 54 * 24 * 16_384 / 419 / 1024
    rows = (
        ('LeNet would take # ms by', 1e3 * alone),
        ('ResNet-50, with # uses', uses),
        ('finds # images in float32', hide),
        ('sustains # · 10¹² (…), and of the label 80% arrive: #. And', kept_up, real),
        ('2 · 7/8 times, not twice: #. Lat', real * 7 / 8),
        ('a failure every # hours, saving', failure),
    )
    compare(8, rows)
