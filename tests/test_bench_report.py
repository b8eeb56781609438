"""What becomes of the measurements: ratios, tables, a page, a picture, the book's lines."""

import json
import re
from dataclasses import replace

import pytest
from checkouts import ROOT
from matplotlib.image import imread

from benchmarks import picture, tables
from benchmarks.cases import CASES
from benchmarks.figures import ROWS, figures
from benchmarks.ratios import training_flops
from benchmarks.result import FULL, QUICK, Result, newest


def processes(*rates):
    return [{'seconds': 512 / r, 'examples_per_second': r} for r in rates]


def once(*waits, **measured):
    """One run per round: with these waits, or three times the same."""
    rounds = [{'waited': wait} for wait in waits] or [measured] * 3
    return [[one] for one in rounds]


MACHINE = {'cpu': 'Acme(R) Fast-9 CPU @ 3.00GHz', 'system': 'Linux 6.1', 'load_before': 0.1}
MACHINE |= {'cores': 2, 'memory_gb': 8.0}
LIMITS = {f'{k} at once': {'dot': 1.0 * k, 'dense': 2.0 * k, 'copy': 5.0} for k in (1, 2)}
SUMS = {'naive, each gradient': [8.0, 6.0, 12.0], 'tree, buckets': [2.0, 2.0, 4.0]}
SUMS['memory copy'] = [1.0, 1.0, 1.0]


@pytest.fixture
def result():
    """Three rounds whose ratios are easy to compute in one's head."""
    return Result(
        FULL, rounds=3, examples=512, seconds=60, date='2026-11-21T12:00',
        machine=MACHINE,
        versions={'Python': '3.11.7', 'mxnet': '1.9.1', 'commit': 'abc'},
        measured={
            'from scratch, 2 devices': [processes(100), processes(90), processes(120)],
            'from scratch, 2 processes': [processes(50, 50), processes(60, 40), processes(80, 80)],
            'from scratch, 1 device': [processes(50), processes(50), processes(50)],
            'from scratch, 1 device, 2 threads': [processes(80), processes(90), processes(60)],
            'import mgpu_helpers': once(0.02, 0.03, 0.04),
            'first step, from scratch': once(2.0, 2.0, 2.0),
            'first step, d2l': once(5.0, 4.0, 6.0),
            'memory, from scratch': once(seconds=57, examples_per_second=9, peak_gb=1.0),
            'memory, d2l': once(seconds=57, examples_per_second=9, peak_gb=3.0),
            'allreduce, LeNet, 2 devices': once(bytes=516_272, gradients=8, times=SUMS)[:1],
            'limits of MXNet': once(**LIMITS),
        },
    )  # fmt: skip


def figure(result, what, over):
    (only,) = [f for f in figures(result.measured) if (f.what, f.over) == (what, over)]
    return only


def test_ratios_are_taken_within_a_round_and_are_above_one_where_ours_is_better(result):
    ours = 'from scratch, 2 devices'
    row = figure(result, ours, 'from scratch, 2 processes')
    assert row.values == [1.0, 0.9, 0.75]  # processes at the same time: their rates add up
    assert row.median == 0.9 and row.range == '0.75 to 1.00' and row.wanted == '≥ 0.93'
    # Less time and less memory are better; sums are compared repeat by repeat.
    assert figure(result, 'first step, from scratch', 'first step, d2l').values == [2.5, 2, 3]
    assert figure(result, 'memory, from scratch', 'memory, d2l').values == [3, 3, 3]
    name = 'allreduce, LeNet, 2 devices: tree, buckets'
    assert figure(result, name, 'naive, each gradient').values == [4, 3, 3]
    assert figure(result, name, 'a memory copy of the same size').values == [0.5, 0.5, 0.25]
    # One device is taken at its fastest.
    assert figure(result, ours, 'from scratch, 1 device, 2 threads').values == [1.25, 1.0, 2.0]
    for one in result.measured['from scratch, 1 device, 2 threads']:
        one[0]['examples_per_second'] = 10
    assert figure(result, ours, 'from scratch, 1 device').median == 2
    # LeNet's multiplications by hand: conv1, conv2, dense 800*128, dense 128*10.
    first, rest = 26**2 * 20 * 9, 9**2 * 50 * 500 + 800 * 128 + 128 * 10
    assert training_flops('LeNet') == 2 * (2 * first + 3 * rest)
    row = figure(result, ours, "MXNet's fastest matrix product")
    assert row.values[0] == pytest.approx(100 * training_flops('LeNet') / 4e9)


def test_rows_are_of_cases_that_exist_and_left_out_where_one_was_not_measured(result):
    assert all(set(row.cases) <= set(CASES) for row in ROWS)
    assert 12 <= sum(bool(row.brief) for row in ROWS) <= 18  # as many as a page can bear
    whole = len(figures(result.measured))
    del result.measured['from scratch, 1 device, 2 threads']  # then who knows which was fastest
    assert len(figures(result.measured)) == whole - 1
    assert figures({}) == []


def test_stored_results_come_back_and_only_complete_and_full_ones_are_published(result, tmp_path):
    path = result.save(tmp_path / 'new')
    assert path.name == '2026-11-21-2cores-acme-fast-9.json'
    assert Result.load(path) == result
    for unfit in ({'kind': QUICK}, {'failed': ['import d2l.mxnet']}, {'absent': ['torch']}):
        replace(result, date='2026-11-25T12:00', **unfit).save(tmp_path)
        assert newest(tmp_path) is None
    result.save(tmp_path)
    later = replace(result, date='2026-11-22T12:00')
    later.save(tmp_path)
    assert newest(tmp_path) == later


def test_the_page_and_the_terminal_have_every_table(result):
    page, shown = tables.markdown(result), tables.text(result)
    titles = re.findall('^## (.*)$', page, re.M)
    assert len(titles) >= 6 and all(f'\n{title}\n' in shown for title in titles)
    assert 'A worker' not in titles and 'Test accuracy' not in page  # nothing of them here
    speed = r'scratch, 2 devices +\| from scratch, 2 processes +\| 0\.90 +\| 0\.75 to 1\.00 +\| 3 '
    wait = r'import mgpu_helpers +\| 0\.03 s +\| 0\.02 to 0\.04 +\| 3 +\| ≤ 0\.1'
    assert re.search(speed, page) and re.search(wait, page), page
    assert 'mxnet 1.9.1' in page and 'Acme' in page and 'not to be published' not in page
    assert 'not to be published' in tables.markdown(replace(result, kind=QUICK))
    failed = tables.text(replace(result, failed=['import d2l.mxnet'], absent=['torch']))
    assert 'a run failed: import d2l.mxnet' in failed and 'not installed: torch' in failed


def test_the_picture_grows_with_what_was_measured_and_nothing_is_no_picture(result, tmp_path):
    few = {name: result.measured[name] for name in ('first step, from scratch', 'first step, d2l')}
    picture.draw(result, tmp_path / 'all.png')
    picture.draw(replace(result, measured=few), tmp_path / 'one.png')
    assert imread(tmp_path / 'one.png').shape[0] < imread(tmp_path / 'all.png').shape[0]
    with pytest.raises(ValueError, match='no ratio to draw'):
        picture.draw(replace(result, measured={}), tmp_path / 'none.png')


def test_the_books_page_gets_its_lines_and_nothing_else_changes(result, tmp_path):
    page = tmp_path / 'README.md'
    page.write_text(f'# Title\n\n{tables.BEGIN}\nold figures\n{tables.END}\n\nThe rest.\n')
    tables.write_page(result, page)
    tables.write_page(result, page)  # again: the same
    text = page.read_text()
    assert text.startswith(f'# Title\n\n{tables.BEGIN}\n') and text.endswith('\n\nThe rest.\n')
    assert 'old figures' not in text
    row = r'^\| Chapter 1: two stand-ins over two processes .*\| 0\.90 '
    assert re.search(row, text, re.MULTILINE), text
    assert re.search(r'≥ 0\.93 +\| no ', text) and '(0.90). Two processes wait' in text


def test_the_books_page_shows_the_newest_result_and_none_tells_anything_of_who_made_it():
    _, block, _ = tables.cut((ROOT / 'book/measured.md').read_text(encoding='utf8'))
    assert block == tables.page_block(newest())
    for path in (ROOT / 'benchmarks/results').glob('*.json'):
        assert path.with_suffix('.md').exists() and path.with_suffix('.png').exists()
        text = path.read_text(encoding='utf8')
        assert set(json.loads(text)['machine']) == set(MACHINE)
        assert not re.search(r'(?<!\w)/(home|root|tmp|work|usr|mnt)/', text)
