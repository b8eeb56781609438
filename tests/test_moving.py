"""Pictures that move in the book: they show what the package counts, and compute what it does."""

import importlib
import itertools
import json
import re
import shutil

import numpy as np
import pytest
from checkouts import ROOT

from mgpu_helpers.collectives import REGISTRY, count
from mgpu_helpers.scaling import (
    CHIPS,
    MACHINES,
    MODELS,
    Layer,
    Link,
    Machine,
    Model,
    bill,
    bubble,
    step,
    strong_scaling,
)

# What a picture says at each step, for each choice, and what it draws at the end.
WALK = """(({index, choices}) => {
  const host = document.querySelectorAll('.moving')[index];
  const data = JSON.parse(host.querySelector('script').textContent);
  const {steps, say, draw, note} = Moving.kinds[host.dataset.kind](data);
  return choices.map((choice) => {
    const last = steps(choice), said = [...Array(last + 1).keys()].map((step) => say(choice, step));
    const texts = draw(choice, last, 320).querySelectorAll('text[class$="-text"]');
    return {said, drawn: [...texts].map((text) => text.textContent), note: note(choice)};
  });
})"""


@pytest.fixture(scope='module')
def pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / 'book')
        return [*importlib.import_module('steps').moving()]


@pytest.fixture(scope='module')
def page(pictures, browser, tmp_path_factory):
    """A page with all of them and nothing else, as the book lays it out."""
    folder = tmp_path_factory.mktemp('page')
    shutil.copytree(ROOT / 'book/static', folder, dirs_exist_ok=True)
    divs = ''.join(
        f'<section><div class="moving" data-kind="{kind}"><script type="application/json">'
        f'{json.dumps(data)}</script></div></section>'
        for _, _, kind, data in pictures
    )
    files = ['steps.js', *sorted({f.name for f in folder.glob('*.js')} - {'steps.js', 'book.js'})]
    head = ''.join(f'<script defer src="{file}"></script>' for file in files)
    html = '<!doctype html><meta charset=utf8><link rel=stylesheet href=steps.css>'
    (folder / 'index.html').write_text(f'{html}{head}<body class="bd-article">{divs}', 'utf8')
    browser.open((folder / 'index.html').as_uri(), 390)
    browser.wait_for('document.querySelectorAll(".moving[role=group] svg").length')
    return browser


def walk(page, index, choices):
    return page.ask(f'{WALK}({json.dumps({"index": index, "choices": choices})})')


def find(pictures, wanted):
    return [i for i, (*_, kind, data) in enumerate(pictures) if kind == wanted]


def test_each_stands_behind_what_its_chapter_shows(pictures):
    for page, after, *_ in pictures:
        cells = json.loads((ROOT / f'{page}.ipynb').read_text('utf8'))['cells']
        text = '\n'.join(''.join(cell['source']) for cell in cells)
        assert (f'../img/{after})' if after.endswith('.svg') else after) in text, (page, after)


def test_an_allreduce_shows_the_messages_that_are_counted(page, pictures):
    places = find(pictures, 'allreduce')
    for index, (name, algorithm) in zip(places, REGISTRY.items(), strict=True):
        by_devices = walk(page, index, [{'devices': k} for k in range(2, 9)])
        for k, shown in enumerate(by_devices, 2):
            cells = pictures[index][3]['runs'][k]['cells']
            counted = count(algorithm.function, k, cells)
            found = []
            for said in shown['said'][1:]:
                at = int(re.match(r'Round (\d+) of', said)[1])
                for message in re.findall(r'(\d) to (\d)(?: \(slices? (\d)(?:–(\d))?\))?', said):
                    source, target, first, last = message
                    size = int(last or first) - int(first) + 1 if first else cells
                    found.append((at, int(source), int(target), 4 * size))
            travel = counted.travel(lambda nbytes: 1)
            wanted = [(m.start + 1, m.source, m.target, m.nbytes) for m in travel]
            assert sorted(found) == sorted(wanted), (name, k)
            assert f'{counted.messages} messages in {counted.rounds} rounds' in shown['note']
            arrays = float(re.search('carries (.*?) array', shown['note'])[1])
            assert arrays == pytest.approx(counted.busiest / (4 * cells), abs=0.006)
            sums = [k * (k + 1) // 2 * (c + 1) for c in range(cells)]
            assert list(map(int, shown['drawn'])) == sums * k, (name, k)


def test_a_pipeline_shows_the_order_of_the_stages_and_what_they_keep(page, pictures):
    pytest.importorskip('torch', reason='the schedules are those of PyTorch')
    from mgpu_helpers.pytorch.model_parallel import pipeline

    (index,) = find(pictures, 'pipeline')
    orders = {'GPipe': pipeline.gpipe_order, '1F1B': pipeline.one_f_one_b_order}
    sizes = itertools.product(orders, (2, 3, 4), (4, 6, 8, 12))
    choices = [dict(zip(('schedule', 'stages', 'batches'), size)) for size in sizes]
    for (name, p, m), shown in zip(map(dict.values, choices), walk(page, index, choices)):
        ends = [re.findall(r'stage (\d) (\w+) ?(\d*)', said) for said in shown['said'][1:]]
        for stage in range(p):
            done = [
                (kind, int(i)) for moment in ends for s, kind, i in moment if i and int(s) == stage
            ]
            # Each unit of time is told: a backward pass twice.
            twice = [
                one for one in orders[name](m, stage, p) for _ in range(1 + (one[0] == 'backward'))
            ]
            assert done == twice, (name, p, m, stage)
        waits, units = map(int, re.search(r'waits (\d+) of (\d+)', shown['note']).groups())
        assert waits / units == pytest.approx(bubble(p, m))
        keeps = [m] * p if name == 'GPipe' else [min(m, p - stage) for stage in range(p)]
        assert f'Kept at most: {", ".join(map(str, keeps))} micro' in shown['note']


def test_a_ring_shows_the_pairs_that_each_rank_computes(page, pictures):
    pytest.importorskip('torch', reason='the ring is that of PyTorch')
    from mgpu_helpers.pytorch.language import context

    def work(pieces, rank, turn):
        k, size = len(pieces), 384 // sum(map(len, pieces))
        found = context.pairs(pieces[rank], pieces[(rank - turn) % k])
        return sum(size * (size + 1) // 2 if same else size * size for *_, same in found)

    for index, ways in zip(find(pictures, 'ring'), (['in order'], ['in order', 'zig-zag'])):
        for way in ways:
            places = context.contiguous if way == 'in order' else context.zigzag
            choices = [{'way': way, 'ranks': k} for k in (2, 3, 4, 6, 8)]
            for k, shown in zip((2, 3, 4, 6, 8), walk(page, index, choices)):
                turns = [[work(places(k), rank, turn) for rank in range(k)] for turn in range(k)]
                for said, ranks in zip(shown['said'][1:], turns, strict=True):
                    assert said.endswith(f'computed: {"; ".join(f"{n:,}" for n in ranks)}.'), said
                assert f'compute {sum(map(max, turns)):,} pairs' in shown['note']


def close(found, wanted):
    assert np.asarray(found) == pytest.approx(np.asarray(wanted), rel=1e-9, abs=0)


def explored(pictures, kind, *numbers):
    """The explorer's constants, and choices from all along each of its sliders."""
    data = pictures[find(pictures, kind)[0]][3]
    values = [
        [s['values'][round(i * (len(s['values']) - 1) / n)] for i in range(n + 1)]
        for s, n in zip(data['sliders'], numbers, strict=True)
    ]
    names = [s['name'] for s in data['sliders']]
    return data['constants'], [dict(zip(names, chosen)) for chosen in itertools.product(*values)]


def test_the_explorer_computes_what_python_does(page, pictures):
    constants, choices = explored(pictures, 'scaling', 3, 1, 2, 1, 2)
    asked = f'{json.dumps(choices)}.map((c) => Explorer.scaling(c, {json.dumps(constants)}))'
    counts = [2**i for i in range(13)]
    flops, llama = MACHINES['DGX H100'].flops, MODELS['Llama 3.1 70B']
    for c, got in zip(choices, page.ask(asked), strict=True):
        machine = Machine('m', flops, Link('l', c['latency'], c['bandwidth']))
        work = llama.flops / llama.parameters * c['parameters']
        model = Model('m', [Layer('all', c['parameters'], work)], 2)
        one = step(model, c['batch'], c['devices'], machine)
        parts = ('forward', 'backward', 'communication', 'exposed', 'seconds')
        close([got[part] for part in parts], [getattr(one, part) for part in parts])
        alone = step(model, c['batch'], 1, machine).seconds
        weak = [(k, k * alone / step(model, c['batch'], k, machine).seconds) for k in counts]
        close(got['weak'], weak)
        whole = c['batch'] * c['devices']
        fewer = [k for k in counts if k <= whole]
        close(got['strong'], [*zip(fewer, strong_scaling(model, whole, fewer, machine).speedup)])


def test_the_bill_is_that_of_python(page, pictures):
    constants, choices = explored(pictures, 'bill', 1, 1, 2, 1, 1, 1)
    asked = f'{json.dumps(choices)}.map((c) => Explorer.bill(c, {json.dumps(constants)}))'
    for c, got in zip(choices, page.ask(asked), strict=True):
        between = bill.BETWEEN_FAILURES / c['gpus']
        tokens = c['tokens'], bill.tokens_needed(c['tokens'], 16384 * c['gpus'], c['critical'])
        least, larger = (
            bill.gpu_hours(c['parameters'], n, CHIPS['H100'].flops, c['mfu']) for n in tokens
        )
        every = bill.checkpoint_interval(1 / 60, between)
        failures = larger * bill.time_lost(1 / 60, 1 / 6, between, every)
        found = [got[part] for part in ('training', 'larger', 'failures')]
        assert found == pytest.approx([least, larger - least, failures], rel=1e-6)


def test_nothing_moves_for_who_wants_that(page):
    page.ask("""(() => {
      const slider = document.querySelector('.moving input');
      slider.value = 1;
      slider.dispatchEvent(new Event('input'));
    })()""")
    moves = 'getComputedStyle(document.querySelector(".moving-mover")).animationName'
    page.ask('(document.adoptedStyleSheets = [], 1)')  # the browser of the tests stops all motion
    for preference, name in {'reduce': 'none', 'no-preference': 'moving-go'}.items():
        media = [{'name': 'prefers-reduced-motion', 'value': preference}]
        page.call('Emulation.setEmulatedMedia', features=media)
        assert page.ask(moves) == name
