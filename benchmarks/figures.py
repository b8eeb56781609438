"""The rows of the table: which two cases make a ratio, and the target for it."""

from .chapter3 import COPY, NAIVE
from .ratios import (
    Row,
    Sum,
    busy,
    busy_by_formula,
    fastest_product,
    inverse_memory,
    inverse_wait,
    training_speed,
)

PEERS = 'Against what one would use instead'
SCALING = 'One stand-in, two stand-ins'
SUMS = 'Summing gradients'
CLUSTER = 'A cluster on this machine'
WAITING = 'Sooner ready'
MEMORY = 'Less memory'
BUBBLE = 'Pipeline of two stages'
LIMITS = 'Share of what this machine can do'


def scaled(name, apart, single, brief=''):
    """Make the rows of ``cases.scaling``.

    Two devices are compared with the most that two cores can do, and with one device at its fastest
    on this machine, with one core or both, so that no slowed baseline flatters them. The last row,
    one core per device, is what the chapters show.
    """
    two, one = f'{name}, 2 devices', f'{name}, 1 device'
    two_words = f'{brief}: two stand-ins over two processes that share nothing' if brief else ''
    one_words = f'{brief}: two stand-ins over one device at its fastest' if brief else ''
    return [
        Row(SCALING, two, (f'{name}, 2 processes',), apart, two_words),
        Row(SCALING, two, (one, f'{one}, 2 threads'), single, one_words),
        Row(SCALING, two, (one,)),  # the same row, if one thread is the faster: shown once
    ]


# Why a row of the book may miss what is wanted: said below the table, where it does.
APART = (
    'Two processes wait for nobody; here each step sums the gradients and waits for the slower '
    'device, and one Python hands out the work of both.'
)
MORE_CORES = {
    'Chapter 1': 'One device gets a little faster by a second thread; that little is missing.',
    'Chapter 2, ResNet-18': 'One device divides its large convolutions between two threads almost '
    'as well as two stand-ins divide the batch: both use both cores.',
    'Chapter 5': "PyTorch's operators make good use of two threads, so one device has most of what "
    'both cores can give.',
}
WHY = {f'{of}: two stand-ins over one device at its fastest': why for of, why in MORE_CORES.items()}
WHY |= {f'{of}: two stand-ins over two processes that share nothing': APART for of in MORE_CORES}

SCRATCH = 'from scratch, 2 devices'
SAME = 'Gluon, chapter 1 network, 2 devices'
# Peers as they are and with our settings: a row takes the faster.
D2L = 'd2l, 2 devices', 'd2l, 2 devices, our settings'
DDP = 'bare DDP, 2 processes', 'bare DDP, 2 processes, our memory settings'

ROWS = [
    Row(PEERS, SCRATCH, ('original text, 2 devices',), 2.0,
        'Chapter 1 over the old text that it follows'),
    Row(PEERS, SCRATCH, D2L, None, "Chapter 1 over d2l's loader and training loop"),
    Row(PEERS, SCRATCH, DDP, None, 'Chapter 1 over a bare PyTorch DDP loop'),
    Row(PEERS, SCRATCH, (SAME,), 0.9),
    Row(PEERS, SAME, ('original text, 2 devices',)),
    Row(PEERS, SAME, D2L, None, "Chapter 2 over d2l's loader and training loop"),
    Row(PEERS, SAME, DDP, 0.95, 'Chapter 2 over a bare PyTorch DDP loop'),
    Row(PEERS, 'PyTorch from scratch, 2 devices', DDP),
    Row(PEERS, 'train_ddp, 2 processes', DDP, 0.98,
        'Chapter 5 over a bare PyTorch DDP loop'),
    Row(PEERS, 'train_ddp.py, 2 processes', DDP),
    *scaled('from scratch', 0.93, 1.7, 'Chapter 1'),
    *scaled('Gluon LeNet', 0.93, 1.75),
    *scaled('ResNet-18', 0.93, 1.85, 'Chapter 2, ResNet-18'),
    *scaled('evaluate LeNet', None, 1.7),
    *scaled('evaluate ResNet-18', None, 1.7),
    *scaled('PyTorch from scratch', None, 1.8, 'Chapter 5'),
    *[
        Sum(SUMS, f'allreduce, {network}, {k} devices', (), None, brief, way=NAIVE)
        for network, k, brief in (
            ('LeNet', 2, "Chapter 3: LeNet's gradients summed the best way, over one by one"),
            ('LeNet', 4, ''),
            ('ResNet-18', 2, ''),
            ('ResNet-18', 4, ''),
        )
    ],
    Row(SUMS, 'from scratch, 2 devices, buckets', (SCRATCH,), 1.0),
    Row(CLUSTER, 'cluster, 2 workers', ('cluster, 1 worker',), None,
        'Chapter 4: two workers over one, scheduler and server beside them'),
    Row(CLUSTER, 'cluster, 2 workers', ('Gluon LeNet, 2 devices',)),
    Row(CLUSTER, 'cluster, 2 workers, dist_async', ('cluster, 2 workers',)),
    Row(CLUSTER, 'cluster, 2 workers, 2-bit', ('cluster, 2 workers',)),
    *[  # wanted: an idle share within 0.1 of the formula's
        Row(BUBBLE, name, (name,), round(1 - 0.1 * (m + 1) / m, 2), '', busy, busy_by_formula,
            'm / (m + 1), the formula')
        for m in (2, 4, 8)
        for name in [f'pipeline, {m} micro-batches: time at work']
    ],
    Row(WAITING, 'first step, from scratch', ('first step, original text',), score=inverse_wait),
    Row(WAITING, 'first step, from scratch', ('first step, d2l',), None,
        "Until the first step has ended: d2l's time over chapter 1's", inverse_wait),
    Row(WAITING, 'first step, Gluon LeNet', ('first step, d2l',), score=inverse_wait),
    Row(WAITING, 'first step, DDP in 2 processes', ('first step, bare DDP in 2 processes',),
        score=inverse_wait),
    Row(WAITING, 'first step, train_ddp.py and its end', ('first step, bare DDP in 2 processes',),
        score=inverse_wait),
    Row(MEMORY, 'memory, from scratch', ('memory, original text',), score=inverse_memory),
    Row(MEMORY, 'memory, from scratch', ('memory, d2l',), None,
        "Peak memory: d2l's over chapter 1's", inverse_memory),
    Row(MEMORY, 'memory, Gluon, chapter 1 network', ('memory, d2l',), score=inverse_memory),
    Row(MEMORY, 'memory, train_ddp', ('memory, bare DDP',), score=inverse_memory),
    Row(MEMORY, 'memory, train_ddp.py', ('memory, bare DDP',), score=inverse_memory),
    *[
        Row(LIMITS, name, (f'limits of {library}',), None, brief, training_speed(model),
            fastest_product, f"{library}'s fastest matrix product")
        for name, model, library, brief in (
            (SCRATCH, 'LeNet', 'MXNet', "Chapter 1: share of MXNet's fastest matrix product"),
            ('Gluon LeNet, 2 devices', 'LeNet', 'MXNet', ''),
            ('ResNet-18, 2 devices', 'ResNet-18 (28x28)', 'MXNet',
             "ResNet-18: share of MXNet's fastest matrix product"),
            ('PyTorch from scratch, 2 devices', 'LeNet', 'PyTorch', ''),
            ('train_ddp, 2 processes', 'LeNet', 'PyTorch', ''),
        )
    ],
    *[
        Sum(LIMITS, f'allreduce, {network}, {k} devices', (), way=COPY)
        for network in ('LeNet', 'ResNet-18')
        for k in (2, 4)
    ],
]  # fmt: skip


def figures(measured):
    """List the rows for which everything was measured, each once."""
    unique = {}
    for figure in filter(None, (row.figure(measured) for row in ROWS)):
        unique.setdefault((figure.group, figure.what, figure.over), figure)
    return list(unique.values())
