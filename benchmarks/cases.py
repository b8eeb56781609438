"""List the runs, with their processes and settings, and the rows that compare them."""

from collections.abc import Callable
from dataclasses import dataclass, field

from mgpu_helpers.runtime import MALLOC, SETTINGS

BATCH = 256
# The settings of `import mgpu_helpers`, for a process that does not import it: all of them, and
# only those that tell glibc to keep freed memory.
KEEP_MEMORY = {name: str(value) for name, (_, value) in MALLOC.items()}
OUR_SETTINGS = SETTINGS | KEEP_MEMORY


@dataclass(frozen=True)
class Case:
    """A run of a function in these modules (``what``), by one or more parallel processes.

    It trains on the fraction ``share`` of a run's examples (ResNet-18 takes ten times as long as
    LeNet). It is left out if a module in ``needs`` is missing; ``--quick`` runs the ``quick`` ones.
    """

    what: str
    devices: int = 2
    batch: int = BATCH
    options: dict = field(default_factory=dict)
    processes: int = 1
    share: float = 1
    settings: dict = field(default_factory=dict)
    needs: tuple = ('mxnet',)
    data: bool = True  # it reads Fashion-MNIST
    quick: bool = False

    def examples_of(self, examples):
        """Return how many of ``examples`` it trains on: whole batches, at least one."""
        return max(1, round(examples * self.share / BATCH)) * BATCH


def scaling(name, what, batch=BATCH, **about):
    """Return four cases: two devices, two processes, one device on one core and on two.

    Two independent processes are the upper bound for two cores. One device takes batches of
    ``batch``; two devices share a batch of ``BATCH``.
    """
    both = {'OMP_NUM_THREADS': '2', 'MXNET_CPU_TEMP_COPY': '64'}
    return {
        f'{name}, 2 devices': Case(what, **about),
        f'{name}, 2 processes': Case(what, 1, batch, processes=2, **about),
        f'{name}, 1 device': Case(what, 1, batch, **about),
        f'{name}, 1 device, 2 threads': Case(what, 1, batch, settings=both, **about),
    }


def twice(name, what, **about):
    """Return two cases for a peer: with its framework's default settings, and with ours."""
    ours = about.pop('ours')
    return {
        name: Case(what, **about),
        f'{name}, our {"memory " if ours is KEEP_MEMORY else ""}settings': Case(
            what, settings=ours, **about
        ),
    }


# PyTorch's cases train two epochs and only one is timed, so they use half the examples.
TORCH = {'needs': ('torch',), 'share': 0.5}
D2L = {'needs': ('mxnet', 'd2l')}
RESNET = {'network': 'ResNet-18'}
SHARD = {'shard': True}

CASES = {
    **scaling('from scratch', 'ours.scratch', quick=True),
    'original text, 2 devices': Case('peer_source.train', share=0.5, quick=True),
    **twice('d2l, 2 devices', 'peer_d2l.train', ours=OUR_SETTINGS, share=0.25, quick=True, **D2L),
    'Gluon, chapter 1 network, 2 devices': Case('ours.gluon', options={'network': 'LeNet'}),
    **scaling('ResNet-18', 'ours.gluon', batch=128, options=RESNET, share=0.2),
    'train_ddp.py, 2 processes': Case('ours.script', quick=True, **TORCH),
    **twice('bare DDP, 2 processes', 'peer_ddp.train', ours=KEEP_MEMORY, quick=True, **TORCH),
    'train_ddp.py --shard, 2 processes': Case('ours.script', options=SHARD, **TORCH),
    **twice('bare fully_shard, 2 processes', 'peer_ddp.train', ours=KEEP_MEMORY, options=SHARD,
            **TORCH),
    'import mgpu_helpers': Case('ours.load', needs=(), data=False, quick=True),
    'first step, from scratch': Case('ours.first_step', quick=True),
    'first step, original text': Case('peer_source.first_step', quick=True),
    'first step, d2l': Case('peer_d2l.first_step', quick=True, **D2L),
}  # fmt: skip


def names_with(words):
    """List the cases with any of these words in their name, in the order of ``CASES``."""
    return [name for name in CASES if any(word in name for word in words)]


def usual(quick):
    """Return the cases that run without ``--only``."""
    return [name for name, case in CASES.items() if case.quick or not quick]


def rate(processes):
    """Return the examples per second of all processes together."""
    return sum(one['examples_per_second'] for one in processes)


def inverse_wait(processes):
    """Return one over the seconds waited, so that more is better."""
    return 1 / processes[0]['waited']


@dataclass(frozen=True)
class Row:
    """A ratio: the case ``of`` over the best of the cases in ``over``; more is better."""

    title: str
    of: str
    over: tuple
    score: Callable = rate


D2L_BOTH = tuple(name for name in CASES if name.startswith('d2l, '))
DDP = tuple(name for name in CASES if name.startswith('bare DDP'))
FSDP = tuple(name for name in CASES if name.startswith('bare fully_shard'))
SCRATCH, GLUON = 'from scratch, 2 devices', 'Gluon, chapter 1 network, 2 devices'


def scaled(title, name):
    """Return rows that compare two stand-ins with two processes and with one device."""
    two, one = f'{name}, 2 devices', f'{name}, 1 device'
    return [
        Row(f'{title}: two stand-ins over two processes', two, (f'{name}, 2 processes',)),
        Row(f'{title}: two stand-ins over one with both cores', two, (f'{one}, 2 threads',)),
        Row(f'{title}: two stand-ins over one with one core', two, (one,)),
    ]


ROWS = [
    Row('Chapter 1 over the old text that it follows', SCRATCH, ('original text, 2 devices',)),
    Row("Chapter 1 over d2l's loader and training loop", SCRATCH, D2L_BOTH),
    Row('Chapter 1 over a bare PyTorch DDP loop', SCRATCH, DDP),
    Row("Chapter 2 over d2l's loader and training loop", GLUON, D2L_BOTH),
    Row('Chapter 2 over a bare PyTorch DDP loop', GLUON, DDP),
    Row("Chapter 6's script over a bare DDP loop", 'train_ddp.py, 2 processes', DDP),
    Row("Chapter 6's script, sharded, over bare fully_shard", 'train_ddp.py --shard, 2 processes',
        FSDP),
    *scaled('Chapter 1', 'from scratch'),
    *scaled('Chapter 2, ResNet-18', 'ResNet-18'),
    Row('Until the first step has ended: the old text over chapter 1', 'first step, from scratch',
        ('first step, original text',), inverse_wait),
    Row("Until the first step has ended: d2l over chapter 1", 'first step, from scratch',
        ('first step, d2l',), inverse_wait),
]  # fmt: skip
