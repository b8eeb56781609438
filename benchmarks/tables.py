"""The result as text: for a terminal, as Markdown, and a few rows of it for the book."""

import pathlib
import statistics
from itertools import groupby

from tabulate import tabulate

from mgpu_helpers.display import Table

from .chapter3 import COPY, NAIVE
from .figures import MEMORY, WAITING, WHY, figures
from .ratios import rate
from .result import FOLDER, QUICK, ROOT

PAGE = ROOT / 'book/measured.md'
BEGIN = '<!-- speed: written by python -m benchmarks --book -->'
END = '<!-- speed: end -->'
HEADS = ['what', 'over', 'median', 'range', 'n', 'wanted', 'met']
HEADS_IN_THE_BOOK = ['what', 'ratio', 'range', 'wanted', 'met']
UNKNOWN = 'Why, nobody has looked at yet.'
NOT_PUBLISHED = 'A quick look: few and short runs, not to be published.'
# What a table's heading says already is left out of the names of its cases.
PREFIXES = {WAITING: 'first step, ', MEMORY: 'memory, '}


def median_and_range(values, form='.3g', unit=''):
    """Format the median of repeats, with its unit, and their range."""
    median, *ends = (f'{v:{form}}' for v in (statistics.median(values), min(values), max(values)))
    return [f'{median} {unit}'.strip(), ' to '.join(ends)]


def short(figure, name):
    return name.removeprefix(PREFIXES.get(figure.group, ''))


def ratio_rows(result):
    """Yield the headings of the ratios, each with its rows."""
    for group, members in groupby(figures(result.measured), key=lambda figure: figure.group):
        rows = []
        for f in members:
            names = short(f, f.what), short(f, f.over)
            row = [*names, *median_and_range(f.values, '.2f'), len(f.values), f.wanted, f.met]
            rows.append(row)
        yield group, rows


def seconds_and_gigabytes(result):
    """List waiting times in seconds and peak memory in gigabytes."""
    wanted = {'import mgpu_helpers': '≤ 0.1', 'memory, from scratch': '≤ 1.5'}
    for name, runs in result.measured.items():
        for key, unit in ('waited', 's'), ('peak_gb', 'GB'):
            if key in runs[0][0] and (unit == 'GB' or name.startswith(('import ', 'first step, '))):
                values = [processes[0][key] for processes in runs]
                row = [name, *median_and_range(values, unit=unit)]
                yield [*row, len(runs), wanted.get(name, '')]


def limits(result):
    """List the highest rates of this machine, in billions a second."""
    for name, runs in result.measured.items():
        if name.startswith('limits of '):
            for key in next(iter(runs[0][0].values())):
                row, unit = [], 'GB/s' if key == 'copy' else 'GFLOP/s'
                for k in (1, 2):
                    speeds = [one[0][f'{k} at once'][key] for one in runs]
                    row += median_and_range(speeds, unit=unit)
                yield [f'{name.removeprefix("limits of ")}, {key}', *row]


def allreduces(result):
    """List chapter 3's ways to sum gradients."""
    for name, runs in result.measured.items():
        if name.startswith('allreduce, '):
            measured, times = runs[0][0], runs[0][0]['times']
            summed = f'{name.removeprefix("allreduce, ")}, {measured["gradients"]} gradients'
            for way in (way for way in times if way != COPY):
                over, share = (
                    [other / mine for other, mine in zip(times[base], times[way])]
                    for base in (NAIVE, COPY)
                )
                speed = measured['bytes'] / statistics.median(times[way]) / 1e9
                share_of_copy, _ = median_and_range(share, '.3f')
                row = [summed, way, *median_and_range(over, '.2f')]
                yield [*row, f'{speed:.2f}', share_of_copy]


def workers(result):
    """List how a worker of chapter 4 spends its time, and how much it sends and receives."""
    keys = 'computing', 'waiting', 'sent', 'received'
    for name, runs in result.measured.items():
        if 'waiting' in runs[0][0]:
            medians = [statistics.median(one[0][key] for one in runs) for key in keys]
            yield [name, *(f'{median:.4f}' for median in medians)]


def rates(result):
    """List the examples per second of all that trains or evaluates."""
    for name, runs in result.measured.items():
        if 'examples_per_second' in runs[0][0] and 'peak_gb' not in runs[0][0]:
            yield [name, *median_and_range([rate(processes) for processes in runs], ',.0f')]


DETAILS = {
    'In seconds and gigabytes': (seconds_and_gigabytes, 'what,median,range,n,wanted'),
    'Limits of this machine, one and two at once': (limits, 'library,one,range,two,range '),
    'Ways to sum gradients': (allreduces, 'summed,how,over naive,range,GB/s,of a memory copy'),
    'A worker: shares of an epoch; bytes over those of the model': (
        workers,
        'a worker of,computes,waits,sends a step,receives a step',
    ),
    'Examples per second': (rates, 'run,median,range'),
}


def tables(result):
    """Yield every table that has rows: a heading, column titles, rows."""
    for group, rows in ratio_rows(result):
        yield group, HEADS, rows
    for title, (make, heads) in DETAILS.items():
        if rows := list(make(result)):
            yield title, heads.split(','), rows


def about(result):
    """Describe in a few lines what was measured, where and how."""
    machine, versions = result.machine, result.versions
    lines = [
        f'{machine["cpu"]}, {machine["cores"]} usable cores, {machine["memory_gb"]} GB of memory, '
        f'{machine["system"]}; load before: {machine["load_before"]}.',
        ', '.join(f'{name} {number}' for name, number in versions.items()) + '.',
        f'{result.date.replace("T", " ")}: {result.rounds} rounds in {result.seconds / 60:.0f} '
        f'minutes, up to {result.examples:,} examples a run.',
    ]
    if result.kind == QUICK:
        lines.insert(0, NOT_PUBLISHED)
    if result.absent:
        lines.append(f'Left out, because it is not installed: {", ".join(result.absent)}.')
    if result.failed:
        lines.append(f'Left out, because a run failed: {"; ".join(result.failed)}.')
    return lines


READING = (
    'Every figure is a ratio within a round, in which each case runs once; median and range are '
    'over n repeats. Above 1, the first is better.'
)


def text(result):
    """Format a result for a terminal."""
    parts = [*about(result), READING]
    for title, heads, rows in tables(result):
        parts += ['', title, str(Table(rows, heads))]
    return '\n'.join(parts)


def markdown(result):
    """Format a result as a page, with its picture."""
    parts = ['# Speed', '', *(f'* {line}' for line in about(result)), '', READING]
    if figures(result.measured):
        parts += ['', f'![The ratios of the tables below, with their ranges]({result.name}.png)']
    for title, heads, rows in tables(result):
        parts += ['', f'## {title}', '', tabulate(rows, heads, 'github', disable_numparse=True)]
    return '\n'.join(parts) + '\n'


def page_block(result, folder=FOLDER):
    """Format the rows for the book: what, ratio, range, in plain words."""
    rows = [
        [f.brief, f'{f.median:.2f}', f.range, f.wanted, f.met]
        for f in figures(result.measured)
        if f.brief
    ]
    missed = [
        f'* {brief} ({ratio}). {WHY.get(brief, UNKNOWN)}'
        for brief, ratio, *_, met in rows
        if met == 'no'
    ]
    where = pathlib.Path(folder).resolve().relative_to(ROOT.resolve()).as_posix()
    machine = result.machine
    lines = [
        f'Measured with `make bench` on {machine["cores"]} cores ({machine["cpu"]}), '
        f'{result.date[:10]}: ratios between runs that took turns, each the median of '
        f'{result.rounds} rounds. Unless stated otherwise: LeNet, batches of 256, stand-in '
        'devices.',
        '',
        tabulate(rows, HEADS_IN_THE_BOOK, 'github', disable_numparse=True),
        '',
        *(['Where less was measured than is wanted:', '', *missed, ''] if missed else []),
        f'[All rows, what they were measured with, and a picture](../{where}/{result.name}.md).',
    ]
    return '\n'.join(lines)


def write_page(result, path=PAGE):
    """Put the block between the two comments of the book's page."""
    path = pathlib.Path(path)
    before, block, after = cut(path.read_text(encoding='utf8'))
    path.write_text(f'{before}{BEGIN}\n{page_block(result)}\n{END}{after}', encoding='utf8')


def cut(page):
    """Cut a page at the two comments: before, between, after."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f'the page needs one line {BEGIN!r} and, below it, one line {END!r}')
    before, rest = page.split(BEGIN)
    block, after = rest.split(END)
    return before, block.strip('\n'), after
