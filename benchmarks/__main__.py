"""``make bench``: one table, every figure a ratio of runs measured in turn in this session.

Rounds are interleaved (every kind of run once, then all again), so that a machine that slows down
slows all of them; a ratio is taken within a round, and the table gives its median and its range.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from importlib.util import find_spec

from tqdm import tqdm

from mgpu_helpers.cores import usable_cores
from mgpu_helpers.display import Table
from mgpu_helpers.runtime import SETTINGS, installed_builds

from . import cluster, sync
from .kinds import ACCURACIES, ALLREDUCES, KINDS, MEMORY, RATIOS, names_with


def run(kind, num_examples):
    """Run the processes of a kind at the same time; give the list of what they measured."""
    num_examples = round(num_examples * kind.share)
    clean = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    processes = [
        subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.run', *map(str, (*one, num_examples))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean | kind.settings,
        )
        for one in kind.runs
    ]
    try:
        for process in processes:
            for line in process.stdout:
                if line == 'ready\n':
                    break
            else:
                raise RuntimeError(f'{process.args} ended before it was ready')
        for process in processes:
            process.stdin.write('go\n')
            process.stdin.flush()
        return [json.loads(p.communicate()[0].splitlines()[-1]) for p in processes]
    finally:
        for process in processes:
            process.kill()


def rate(measured):
    return sum(one['examples_per_second'] for one in measured)


def import_seconds(module='mgpu_helpers'):
    """Time of the import itself, in a fresh interpreter."""
    script = (
        f'import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)'
    )
    return float(
        subprocess.run([sys.executable, '-c', script], capture_output=True, text=True).stdout
    )


def measure(kinds, rounds, num_examples):
    """Give a list of dictionaries, one per round, from the kind of run to what it measured."""
    result = [{} for _ in range(rounds)]
    steps = [
        (one, name)
        for i, one in enumerate(result)
        for name in kinds
        if i == 0 or not KINDS[name].once
    ]
    for one, name in tqdm(steps, unit='run', disable=None):
        one[name] = run(KINDS[name], num_examples)
    return result


def row(what, values, aim):
    """Median and range of repeated measurements, beside what we want."""
    spread = f'{min(values):.3f} to {max(values):.3f}'
    return [what, f'{statistics.median(values):.3f}', spread, aim]


def main():
    parser = argparse.ArgumentParser(prog='python -m benchmarks', description=__doc__)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--examples', type=int, default=60_000, help='per run')
    parser.add_argument('--quick', action='store_true', help='2 rounds of 10,000 examples')
    parser.add_argument(
        '--only', nargs='+', default=[''], metavar='WORD', help='runs with one of these in the name'
    )
    options = parser.parse_args()
    chosen = names_with(options.only)
    if not chosen:
        parser.error(f'no run has {options.only} in its name; there are: ' + '; '.join(KINDS))
    here = {'mxnet': bool(installed_builds()), 'torch': find_spec('torch') is not None}
    absent = {KINDS[name].needs for name in chosen if not here[KINDS[name].needs]}
    if absent:
        print(f'left out: what needs {", ".join(absent)}, which is not installed here')
        chosen = [name for name in chosen if KINDS[name].needs not in absent]
    if options.quick:
        chosen = [name for name in chosen if not KINDS[name].once]
    if not chosen:
        parser.exit(1, 'of what was chosen, nothing is left to measure\n')
    if options.quick:
        options.rounds, options.examples = 2, 10_000
    begin = time.time()
    imports = [import_seconds() for _ in range(7)]
    rounds = measure(chosen, options.rounds, options.examples)
    rows = [
        row(f'{upper} / {lower}', [rate(one[upper]) / rate(one[lower]) for one in rounds], aim)
        for upper, lower, aim in RATIOS
        if {upper, lower} <= set(chosen)
    ]
    rows.append(row('import mgpu_helpers (seconds)', imports, '≤ 0.1'))
    if MEMORY in chosen:
        memory = [one[MEMORY][0]['peak_mb'] / 1e3 for one in rounds]
        rows.append(row(f'{MEMORY}: peak memory (GB)', memory, '≤ 1.5'))
    for name in ACCURACIES:
        if name in chosen:
            best = [rounds[0][name][0]['best_test_acc']]
            rows.append(row(f'{name}: best test accuracy', best, '≥ 0.80'))
    print(
        f'{usable_cores()} cores, {options.examples:,} examples a run (ResNet-18: fewer), '
        f'{options.rounds} rounds in {time.time() - begin:.0f} s; examples per second, as ratios'
    )
    print(Table(rows, ['what', 'median', 'range', 'aim']))
    rates = [
        [name, f'{statistics.median(rate(one[name]) for one in rounds if name in one):,.0f}']
        for name in chosen
        if name != ALLREDUCES
    ]
    if ALLREDUCES in chosen:
        print()
        print(sync.table(rounds[0][ALLREDUCES][0]['allreduces']))
    of_workers = cluster.table(rounds)
    if of_workers:
        print(f'\nshares of an epoch; bytes over those of the model, {4 * cluster.VALUES:,}')
        print(of_workers)
    print()
    print(Table(rates, ['run', 'examples per second']))


if __name__ == '__main__':
    main()
