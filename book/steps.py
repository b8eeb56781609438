"""Compute the data for the book's animations: what the package's functions do, step by step.

The book's environment has no framework, so definitions are taken from their files and run alone.
"""

import ast
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

PACKAGE = Path(__file__).resolve().parents[1] / 'mgpu_helpers'
DEVICES = range(2, 9)


def load(path, names='', **given):
    """Run the named definitions of a file, or all; ``given`` replaces non-standard imports."""
    tree, wanted = ast.parse((PACKAGE / path).read_text('utf8')), set(names.split())

    def kept(node):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, 'module', None) or node.names[0].name
            return not getattr(node, 'level', 0) and module.split('.')[0] in sys.stdlib_module_names
        targets = getattr(node, 'targets', None) or [getattr(node, 'target', node)]
        defined = {getattr(t, 'id', getattr(t, 'name', '')) for t in targets} - {''}
        return defined & wanted if wanted else defined

    tree.body = [node for node in tree.body if kept(node)]
    space = {'__name__': __name__, '__file__': str(PACKAGE / path), **given}
    exec(compile(tree, path, 'exec'), space)
    return SimpleNamespace(**space)


class Checks:
    """Skip the checks of arguments: ours are valid."""

    def __getattr__(self, name):
        return lambda *values, **options: None


# --- chapter 3: which slices travel between which devices ----------------------------------------


class Sent(int):
    """A number of bytes that remembers its position in the array (``first``)."""


class Cells:
    """A slice of a device's array, with only an allreduce's operations; a number is one byte."""

    dtype = None

    def __init__(self, first, size):
        self.first, self.size, self.shape = first, size, (size,)

    @property
    def nbytes(self):
        sent = Sent(self.size)
        sent.first = self.first
        return sent

    def reshape(self, shape):
        return self

    def copy(self):
        return self

    def __getitem__(self, key):
        return Cells(self.first + key.start, key.stop - key.start)

    def __setitem__(self, key, other):
        pass

    def __iadd__(self, other):
        return self


def allreduces():
    """Map each allreduce's figure to its cells and messages for each number of devices.

    A message is (round, source, target, first cell, cells, 1 if it is added or 0 if it overwrites).
    For each cell, all additions happen before the first overwrite.
    """
    algorithms = load('collectives/algorithms.py', arguments=Checks())
    listed = load('collectives/costs.py', algorithms=algorithms)
    log = load('collectives/messages.py', 'Message Count Counted', arguments=Checks())
    found = {}
    for name, algorithm in listed.REGISTRY.items():
        runs = {}
        for k in DEVICES:
            for cells in (k, 2 ** (k.bit_length() - 1)):  # the number that makes all slices equal
                book = log.Count(k)
                algorithm.function([log.Counted(i, Cells(0, cells), book) for i in range(k)])
                sent = sorted(book.travel(lambda nbytes: 1), key=lambda m: m.start)
                if len({(m.start, m.nbytes) for m in sent}) == sent[-1].end:  # one size per round
                    break
            has = [[{i} for _ in range(cells)] for i in range(k)]  # devices summed in a cell
            messages = []
            for when in range(int(sent[-1].end)):
                before = [[set(cell) for cell in row] for row in has]
                for m in (m for m in sent if m.start == when):
                    at = range(m.nbytes.first, m.nbytes.first + m.nbytes)
                    add = all(not before[m.source][c] & before[m.target][c] for c in at)
                    for c in at:
                        here = has[m.target][c] if add else set()
                        has[m.target][c] = here | before[m.source][c]
                    messages.append([when + 1, *m[:2], m.nbytes.first, int(m.nbytes), int(add)])
            assert all(len(cell) == k for row in has for cell in row), (name, k)
            runs[k] = {'cells': cells, 'messages': messages}
        title = name.replace('_', ' and ').capitalize()
        found[algorithm.figure] = {'title': f'{title}, round by round', 'runs': runs}
    return found


# --- chapter 8: the two explorers ----------------------------------------


def tenths(first, last):
    """Return a slider's values: ten steps per power of ten, numbered from ``first`` to ``last``."""
    return [10 ** (i / 10) for i in range(first, last + 1)]


# Each slider: its name in the formulas, label, initial value, unit (see explorer.js), values.
EXPLORERS = {
    'bill': (
        'The bill of a training',
        ('parameters', 'parameters', 70_553_706_496, 'count', [*map(round, tenths(80, 120))]),
        ('tokens', 'tokens', 1e12, 'count', tenths(90, 140)),
        ('gpus', 'H100s', 1024, None, [2**i for i in range(15)]),
        ('mfu', 'MFU', 0.235, 'share', [i / 20 for i in range(1, 15)]),
        ('critical', 'critical batch, tokens', 20e6, 'count', tenths(60, 90)),
        ('price', 'price of a GPU hour', 2.0, 'money', [i / 4 for i in range(1, 41)]),
    ),
    'scaling': (
        'How well devices work together',
        ('devices', 'devices', 64, None, [2**i for i in range(13)]),
        ('bandwidth', 'bandwidth', 2.5e9, 'B/s', tenths(80, 120)),
        ('latency', 'latency', 14e-6, 's', tenths(-60, -30)),
        ('batch', 'sequences per device', 16, None, [2**i for i in range(11)]),
        ('parameters', 'parameters', 70_553_706_496, 'count', [*map(round, tenths(80, 120))]),
    ),
}


def explorers():
    """Yield each explorer's sliders, their initial values, and the constants of the formulas."""
    published = tomllib.loads((PACKAGE / 'scaling/published.toml').read_text('utf8'))
    models = load('scaling/models.py', 'Layer _llama')
    llama = models._llama(**published['llama']['Llama 3.1 70B'])
    constants = {
        'most': 4096,
        'work': sum(x.flops for x in llama) / sum(x.parameters for x in llama),
        'flops': published['machines']['DGX H100']['flops'],
        'valueBytes': 2,  # bfloat16
        'betweenFailures': load('scaling/bill.py', 'BETWEEN_FAILURES').BETWEEN_FAILURES,
        'peak': published['chips']['H100'],
    }

    for kind, (title, *choices) in EXPLORERS.items():
        sliders = []
        for name, label, start, unit, values in choices:
            values = sorted({*values, start})
            at = {'unit': unit, 'values': values, 'start': values.index(start)}
            sliders.append({'name': name, 'label': label, **at})
        yield kind, {'title': title, 'sliders': sliders, 'constants': constants}


# --- chapter 7: a pipeline's schedules ----------------------------------------


def as_soon_as_possible(orders):
    """Schedule each stage's passes as early as possible: lists of (kind, micro-batch, start, end).

    A forward pass takes 1 unit of time, a backward pass 2.
    """
    left, ends, timed = [[*order] for order in orders], {}, [[] for _ in orders]
    while any(left):
        for s, order in enumerate(left):
            while order:
                kind, i = order[0]
                before = s - 1 if kind == 'forward' else s + 1
                needed = (kind, i, before)
                if 0 <= before < len(orders) and needed not in ends:
                    break
                start = max(timed[s][-1][3] if timed[s] else 0, ends.get(needed, 0))
                ends[kind, i, s] = start + (1 if kind == 'forward' else 2)
                timed[s].append((kind, i, start, ends[kind, i, s]))
                order.pop(0)
    return timed


def pipelines():
    """Return both schedules for several numbers of stages and micro-batches."""
    path, names = 'pytorch/model_parallel/pipeline.py', 'gpipe_order one_f_one_b_order'
    orders = load(path, names, arguments=Checks())
    schedules = {'GPipe': orders.gpipe_order, '1F1B': orders.one_f_one_b_order}
    stages, batches = (2, 3, 4), (4, 6, 8, 12)
    runs = {
        f'{name} {p} {m}': as_soon_as_possible([order(m, s, p) for s in range(p)])
        for name, order in schedules.items()
        for p in stages
        for m in batches
    }
    choices = [
        {'name': 'schedule', 'label': 'Schedule', 'values': [*schedules]},
        {'name': 'stages', 'label': 'Stages', 'values': stages},
        {'name': 'batches', 'label': 'Micro-batches', 'values': batches},
    ]
    start = {'schedule': 'GPipe', 'stages': 4, 'batches': 6}  # as in the still figure
    return {'title': 'A pipeline, pass by pass', 'runs': runs, 'choices': choices, 'start': start}


# --- chapter 9: keys and values in a ring ----------------------------------------

TOKENS = 384  # as in chapter 9's table of work; divisible by twice each number of ranks
RANKS = (2, 3, 4, 6, 8)


def rings(*names):
    """Return each rank's pieces of the sequence, and the pairs that it computes in each turn."""
    of = load('pytorch/language/context.py', 'contiguous zigzag pairs')
    ways, runs = {'in order': of.contiguous, 'zig-zag': of.zigzag}, {}
    for name in ways:
        for k in RANKS:
            pieces = ways[name](k)
            turns = [
                [
                    [(mine[i], theirs[j], int(same)) for i, j, same in of.pairs(mine, theirs)]
                    for rank, mine in enumerate(pieces)
                    for theirs in [pieces[(rank - turn) % k]]  # the order of ring_forward
                ]
                for turn in range(k)
            ]
            runs[f'{name} {k}'] = {'pieces': pieces, 'turns': turns}
    choices = [
        {'name': 'way', 'label': 'Pieces', 'values': names},
        {'name': 'ranks', 'label': 'Ranks', 'values': RANKS},
    ]
    start = {'way': names[-1], 'ranks': 4, 'longest': 'in order'}
    kept = {key: run for key, run in runs.items() if key.startswith((*names, 'in order'))}
    return {
        'title': 'Keys and values in a ring, turn by turn',
        'runs': kept,
        'tokens': TOKENS,
        'choices': choices,
        'start': start,
    }


# --- where each animation goes ----------------------------------------

CHAPTER3, CHAPTER7 = 'notebooks/03-faster-allreduce', 'notebooks/07-larger-than-one-device'
CHAPTER8, CHAPTER9 = 'notebooks/08-what-would-it-cost', 'notebooks/09-a-language-model'


def moving():
    """Yield each animation: its page, the figure, section or code before it, its kind and data."""
    for figure, data in allreduces().items():
        # The first one's figure is in chapter 1; chapter 3 counts its messages in a section.
        after = 'What a sum costs' if figure == 'allreduce.svg' else figure
        yield CHAPTER3, after, 'allreduce', data
    yield CHAPTER7, 'pipeline-schedules.svg', 'pipeline', pipelines()
    yield CHAPTER9, 'ring-attention.svg', 'ring', rings('in order')
    yield CHAPTER9, 'zigzag.svg', 'ring', rings('in order', 'zig-zag')
    for kind, data in explorers():
        yield CHAPTER8, 'interact(plot_bill', kind, data
