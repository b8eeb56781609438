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

from tqdm import tqdm

from mgpu_helpers.devices import usable_cores
from mgpu_helpers.display import Table

SETTINGS = ('OMP_NUM_THREADS', 'MXNET_CPU_TEMP_COPY')


def run(kinds, num_examples, **environment):
    """Run one or several processes at the same time; give the list of what they measured."""
    clean = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    processes = [
        subprocess.Popen(
            [sys.executable, '-m', 'benchmarks.run', what, str(num_gpus), str(num_examples)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean | environment,
        )
        for what, num_gpus in kinds
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


def measure(rounds, num_examples):
    """Give a list of dictionaries, one per round, from the kind of run to what it measured."""
    kinds = {
        'two devices': lambda: run([('ours', 2)], num_examples),
        'two processes': lambda: run([('ours', 1), ('ours', 1)], num_examples),
        'one device': lambda: run([('ours', 1)], num_examples),
        'one device, two threads': lambda: run([('ours', 1)], num_examples, OMP_NUM_THREADS='2'),
        'source 000': lambda: run([('peer', 2)], num_examples),
    }
    steps = [(i, name) for i in range(rounds) for name in kinds]
    result = [{} for _ in range(rounds)]
    for i, name in tqdm(steps, unit='run', disable=None):
        result[i][name] = kinds[name]()
    return result


def ratio_row(what, aim, rounds, upper, lower):
    values = [rate(one[upper]) / rate(one[lower]) for one in rounds]
    spread = f'{min(values):.3f} to {max(values):.3f}'
    return [what, f'{statistics.median(values):.3f}', spread, aim]


def main():
    parser = argparse.ArgumentParser(prog='python -m benchmarks', description=__doc__)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--examples', type=int, default=60_000, help='per run')
    parser.add_argument('--quick', action='store_true', help='2 rounds of 10,000 examples')
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.examples = 2, 10_000
    begin = time.time()
    imports = [import_seconds() for _ in range(7)]
    rounds = measure(options.rounds, options.examples)
    two = 'two devices'
    memory = max(one[two][0]['peak_mb'] for one in rounds)
    rows = [
        ratio_row('2 devices / 2 processes at once', '≥ 0.93', rounds, two, 'two processes'),
        ratio_row('2 devices / 1 device', '≥ 1.7', rounds, two, 'one device'),
        ratio_row('2 devices / 1 device on 2 threads', '', rounds, two, 'one device, two threads'),
        ratio_row('2 devices / source 000 on 2 devices', '≥ 2.0', rounds, two, 'source 000'),
        [
            'import mgpu_helpers (seconds)',
            f'{statistics.median(imports):.3f}',
            f'{min(imports):.3f} to {max(imports):.3f}',
            '≤ 0.1',
        ],
        ['peak memory of the 2-device run (GB)', f'{memory / 1e3:.2f}', '', '≤ 1.5'],
    ]
    print(
        f'{usable_cores()} cores, batch 256, {options.examples:,} examples a run, '
        f'{options.rounds} rounds in {time.time() - begin:.0f} s; examples per second, as ratios'
    )
    print(Table(rows, ['what', 'median', 'range', 'aim']))
    names = list(rounds[0])
    rates = [[name, f'{statistics.median(rate(r[name]) for r in rounds):,.0f}'] for name in names]
    print()
    print(Table(rates, ['run', 'examples per second']))


if __name__ == '__main__':
    main()
