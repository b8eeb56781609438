"""Formulas and figures in the text of chapters 3 and 8: read there, and worked out here.

What is code is compared elsewhere: cells with ``#@save`` with the package, and its formulas with
algorithms counted message by message. What a cell prints is nbval's.
"""

import html
import itertools
import json
import math
import re

import numpy as np
import pytest
from checkouts import ROOT

from mgpu_helpers import scaling as s
from mgpu_helpers.collectives import OURS, allreduce_ring, count
from mgpu_helpers.collectives.algorithms import send
from mgpu_helpers.collectives.bucket_layout import fill_buckets
from mgpu_helpers.scaling import COSTS, LINKS, MACHINES, MODELS, Layer, Link, Machine, Model
from mgpu_helpers.scaling import published as known

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
WORDS = {'a thousandth': 1e-3, 'an eighth': 1 / 8, 'a fifth': 1 / 5, 'a third': 1 / 3, 'one': 1}
WORDS |= {'two': 2, 'two and a half': 2.5, 'three': 3, 'three and a half': 3.5, 'six': 6}
WORDS |= {'eight': 8, 'fourteen': 14, 'thirty': 30, 'forty': 40, 'fifty': 50}
SLOW = Link('all latency', latency=1.0, bandwidth=1e30)  # a message costs 1, whatever its length
THIN = Link('all bandwidth', latency=1e-30, bandwidth=1.0)  # a message costs its length
P3, DGX = MACHINES['p3.16xlarge'], MACHINES['DGX H100']
RESNET, VGG = MODELS['ResNet-50'], MODELS['VGG-16']


def text_of(chapter):
    (path,) = (ROOT / 'notebooks').glob(f'{chapter:02}-*.ipynb')
    cells = json.loads(path.read_text(encoding='utf8'))['cells']
    text = '\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')
    return re.sub(r'\*|</?em>', '', html.unescape(text))


def worth(formula, **letters):
    """What a formula of the text gives, with these values of its letters."""
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
    """Whether a formula gives what it should, or a figure is this one rounded, or a word."""
    if written in WORDS:
        return WORDS[written] == pytest.approx(wanted, rel=0.07)
    exact = not re.fullmatch(r'[\d.,]+', written)
    half_a_digit = 0 if exact else 0.501 / 10 ** len(written.partition('.')[2])
    return worth(written, **letters) == pytest.approx(wanted, rel=1e-9, abs=half_a_digit)


def compare(chapter, rows, **letters):
    """Look sentences up, where # is a formula or a figure; behind them is what each must be."""
    text = text_of(chapter)
    for sentence, *wanted in rows:
        pattern = re.escape(sentence).replace(r'\#', '(.{1,60}?)').replace('…', '[^|]{0,150}?')
        found = [one.groups() for one in re.finditer(pattern, text)]
        assert len(found) == 1, sentence
        for written, value in zip(found[0], wanted, strict=True):
            assert same(written, value, **letters), (sentence, written, value)


def test_what_is_added_up_in_the_text_of_any_chapter_comes_to_what_it_says():
    found = [once for chapter in range(1, 9) for once in EQUATION.findall(text_of(chapter))]
    assert len(found) > 30
    for left, _, right, unit in found:
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
    joined = Machine('joined', C, Link('free', 1e-30, 1e30), None, 0, 8, SLOW)
    one_by_one, packing = m * s.ring(k, n, wire), 2 * m * n / M
    saved = one_by_one - s.ring(k, m * n, wire)
    sixteen = [COSTS[f](16, n, wire) for f in ('butterfly', 'halving_doubling')]
    in_3 = (
        ('it carries # whole arrays in each', naive.busiest / 4),
        ('their bytes cost twice: # and # arrays in', ports['naive'], ports['tree']),
        ('of the bandwidth B: T(n) = #.', wire.seconds(n)),
        ('Bus bandwidth is # of that', ports['ring']),
        ('The naive sum has # whole arrays in', naive.busiest / 4),
        ('equal where # = #, so n', *sixteen),
        (', so n = # = 1.88', s.meeting_point(16, wire)),
        ('after # steps device i holds', steps['ring'] / 2),
        ('must send at least # bytes', n * ports['ring']),
        ('devices together send # bytes', n * naive.matrix().sum() / 4),
        ('the mean or more, #. The ring', n * ports['ring']),
        ('One by one: #. In a bucket: #. The', one_by_one, one_by_one - saved + packing),
        ('saved are #, and paid are #.', saved, packing),
        ('So it pays if s < #. With', saved / packing * n),
    )
    in_8 = (
        ('the backward pass takes # seconds', backward),
        ('bytes a second that takes #.', sent),
        ('sending hides if # > #.', backward, sent),
        ('$$b \\; > \\; #$$', grow),
        ('twice the bytes: b > #. Here', 2 * grow),
        ('of the bandwidth B: T(n) = # seconds', wire.seconds(n)),
        ('it saves # messages', steps['halving_doubling'] - steps['butterfly']),
        ('and pays with # arrays', ports['butterfly'] - ports['halving_doubling']),
        ('between servers, # of them', s.communication_seconds(8 * servers, 1, joined)),
        ('w slices of # bytes, twice', s.parameter_servers(w, servers, n, THIN) / 2 / w),
        ('each device waits for # of the', s.bubble(p, m)),
        ('sends to itself, #.', s.parameter_servers(8, 8, n, wire) / s.sharded(8, n, wire)),
        ('is larger than #, operations', grow),
        ('A message takes #. Short', wire.seconds(n)),
        ('each device, against #?', grow),
    )
    compare(3, in_3, s=n, **letters)  # s: bytes of a gradient
    compare(8, in_8, s=servers, **letters)


def test_figures_of_chapter_3():
    def yours(data):  # an exercise's
        send([(data[i ^ 1], data[i]) for i in range(4)], add=True)
        allreduce_ring(data[::2])
        send([(data[0], data[1]), (data[2], data[3])], add=False)

    eight = {name: count(algorithm, 8, 840) for name, algorithm in OURS.items()}
    added = [sum(eight[name].additions.values()) / 840 for name in ('butterfly', 'naive')]
    own, six = count(yours, 4, 1000), count(OURS['halving_doubling'], 6, 100)
    sizes = [720, 80, 100_000, 200, 409_600, 512, 5120, 40]  # the chapter prints them
    buckets = [len(fill_buckets(sizes, limit)) for limit in (1, 100_000, 1_000_000)]
    late, long = (COSTS['halving_doubling'](6, 1, link) for link in (SLOW, THIN))
    border = 0.004 * 25e6 * (10 - late) / (long - s.ring(6, 1, THIN))  # the ring has ten steps
    wire = Link('wire', 10e-6, 10e9)
    costs = [1e3 * f(16, 100e6, wire) for name, f in COSTS.items() if name != 'sharded']
    one, many = (s.memory_per_device(RESNET, batch, 1) for batch in (1, 1024))
    image, kept = one.activations / 1e6, (one.total - one.activations) / 1e9
    images = int((16 - kept) * 1e3 / image)
    need, rounds = math.ceil(8192 / images), math.ceil(1024 / images)
    plain = Model('plain', [Layer('all', 10**9, 1.0)])
    whole, cut = (s.memory_per_device(plain, 1, 2, None, stage, 8) for stage in (0, 1))
    bus = s.ring(8, 1, THIN)
    fast, slow = 1 / 4.2e-3, 8e-6 / 32e-6  # GB a second
    rows = (
        ('each of the # messages is a step of its own', eight['naive'].messages),
        ("for eight devices and LeNet's # gradients", MODELS['LeNet'].parameters),
        ('adds # arrays instead of #.', *added),
        ('find # messages in # steps and # bytes', own.messages, own.steps, own.busiest),
        ('bytes? And in batches of 32? (#, # and # with', *(2 * 94 * number for number in buckets)),
        ('first need # steps, and # arrays through', six.steps, six.busiest / 400),
        ('busiest port (why # in time)', long),
        ('it is near # kB.', border / 1e3),
        ('One array takes # ms.', 1e3 * wire.seconds(100e6)),
        ('Naive: … = # ms. … = # ms. … = # ms. … = # ms. … = # ms.', *costs),
        ('· 100 kB = # kB. Below that', s.meeting_point(16, wire) / 1e3),
        ('With k = 8, α = 10 µs and M = 100 GB/s that is # MB', 7 * 10 * 100 / 1e3),
        ('ResNet-50 has # million parameters', RESNET.parameters / 1e6),
        ('pass needs, take # MB an image. How many images fit into 16 GB', image),
        ('momentum: 3 · # MB = # GB, the same', RESNET.nbytes / 1e6, kept),
        ('their number. # GB / # MB = # images', 16 - kept, image, images),
        ('batch of 8,192 is # on each of eight devices, # GB.', 1024, many.total / 1e9),
        ('It takes # devices, or accumulation: # small', need, rounds),
        ('Adam # GB: # GB on each', whole.optimizer_state / 1e9, whole.total / 1e9),
        ('= # GB through each port', s.ring(8, plain.nbytes, THIN) / 1e9),
        ('8 GB to # GB: # GB instead of', cut.optimizer_state / 1e9, cut.total / 1e9),
        ('links carry 450 GB/s … needs 4.2 ms … of 1 GB, and 32 µs for 8 kB.',),
        ('1 GB: # GB/s, times 2 · 7/8 that is # GB/s, #% of', fast, bus * fast, bus * fast / 4.5),
        ('8 kB: # and # GB/s, # of the link', slow, bus * slow, bus * slow / 450),
    )
    compare(3, rows)


def test_figures_of_chapter_8():
    h200, a100, p4d = (np.array(errors) for errors in known.nccl_errors().values())
    near, worst, largest = 100 * np.median(abs(h200)), 100 * abs(h200).max(), 2**19 * known.SMALLEST
    arrive = 7 / 4 * largest / known.NCCL_MEASURED['8 A100'][2][-1]
    errors = {}
    for name, spread in (('ResNet-101', 0), ('Inception V3', 0), ('ResNet-101', 0.05)):
        given = MODELS[name], 64, 512, known.horovod_machine(name), 'ring', known.FUSION
        found = s.simulate(*given, spread=spread, steps=3).efficiency
        errors[name, spread] = found / known.HOROVOD_MEASURED[512, name][0] - 1
    alone = 3 * s.step(MODELS['LeNet'], 256, 1, MACHINES['V100 on 10 Gb Ethernet']).forward
    levels = [s.hierarchical(RESNET.nbytes, [(8, P3.link), (k, P3.network)]) for k in (1, 8, 128)]
    sums = []
    for k, link in ((8, DGX.link), (16, DGX.network)):
        lost = s.tensor_parallel(k, 80, 8192 * 8192 * 2, link)
        sums.append(lost / (lost + 3 * MODELS['Llama 3.1 70B'].flops / DGX.flops / k))
    deviation = math.sqrt(math.log1p(0.05**2))  # of the factor's logarithm
    slower = math.erfc((math.log(1.1) / deviation + deviation / 2) / math.sqrt(2)) / 2
    alike = s.simulate(MODELS['ResNet-101'], 96, 4096, P3, 'hierarchical').efficiency
    uses, kept_up = RESNET.flops / 2 / RESNET.parameters, P3.flops / 1e12
    sold, real = (2 * flops / P3.network.bandwidth for flops in (15.7e12, P3.flops))
    hide = s.hiding_batch(RESNET, 64, P3, 'hierarchical')
    wire = LINKS['100 Gb InfiniBand']
    around, halved = (1e3 * f(1024, 1e-6, wire) for f in (s.ring, s.halving_doubling))
    nine = 9e-12 * around * wire.bandwidth / s.ring(1024, 1, THIN)
    fast, slow = LINKS['NVLink 4'], LINKS['10 Gb Ethernet']
    rows = (
        ('2,250 · 10¹² operations and 900 GB/s, so #.)', 2250e12 / 900e9),
        ("to 33 to 39%, torchtitan's authors found; we take #.)", 100 * DGX.flops / 989e12),
        ('bandwidth grows by a factor of #, the', fast.bandwidth / slow.bandwidth),
        ('the latency shrinks by #.', slow.latency / fast.latency),
        ('messages of n bytes, # on two', count(OURS['butterfly'], 2, 8).messages),
        ('on two devices and # on four', count(OURS['butterfly'], 4, 8).messages),
        ('kernel on all devices (# or # µs)', *sorted(1e6 * x for x in known.STARTS.values())),
        ('arrays from # kB to # GB', known.SMALLEST / 1e3, largest / 1e9),
        ('half of the rows are within #%, and the worst is #% off', near, worst),
        ('half of the published times were within #%, on', near),
        ('NCCL, short arrays take # times as long as we say', 1 / (1 + np.median(a100[:6]))),
        ("label's # GB/s, # arrive", LINKS['NVLink 3'].bandwidth / 1e9, arrive / 1e9),
        ("Amazon's network short arrays take # times as long", 1 / (1 + p4d[0])),
        ('short arrays took up to # times as long', 1 / (1 + p4d[0])),
        ('good to about # for long arrays', -p4d[-1]),
        ('with nearly # times the bytes', VGG.nbytes / MODELS['Inception V3'].nbytes),
        ('the error shrinks to # or #%', *(100 * x for x in list(errors.values())[:2])),
        ('Whether it will be 90% or #%', 90 * (1 + errors['ResNet-101', 0.05])),
        ('would need # ms for that batch, # images', 1e3 * alone, round(256 / alone, -5)),
        ('one server to eight costs # times the time', levels[1] / levels[0]),
        ('that from eight to 128 # more', levels[2] / levels[1] - 1),
        ('A V100 does # · 10¹² operations a second', kept_up),
        ('sixteen, below the # that hide all', s.hiding_batch(VGG, 16, P3, 'hierarchical')),
        ('sums cost # of the step. Over two servers they cost #,', *sums),
        ('are # messages of 14 µs in a row', s.ring(16, 1, SLOW)),
        ('instead of # of 3.4 µs', s.ring(8, 1, SLOW)),
        ('about one device in # is slower', 1 / slower),
        ('no spread reach #%', 100 * alike + 1),
        ('finds # images in float32', hide),
        ('a second, the rule says #. Where', math.ceil(sold / uses)),
        ('= # uses, at # uses an image # images', sold, uses, math.ceil(sold / uses)),
        ('keeps up # · 10¹² (…): #. And', kept_up, math.ceil(real / uses)),
        ('2 · 7/8 times, not twice: #. Lat', real / uses * 7 / 8),
        ('the servers make it #.', hide),
        ('Ring: … = # ms. Halving-doubling: … = # ms.', around, halved),
        ('is nine times # ms at # GB', around, nine),
    )
    compare(8, rows)
