"""The cases that are run: which function, in how many processes, with which settings."""

from dataclasses import dataclass, field

from mgpu_helpers.runtime import MALLOC, SETTINGS

BATCH = 256
# What `import mgpu_helpers` sets, for a process that does not import it: all of it, and the part
# that tells glibc to keep freed memory.
KEEP_MEMORY = {name: str(value) for name, (_, value) in MALLOC.items()}
OUR_SETTINGS = SETTINGS | KEEP_MEMORY
# One device with two cores: as fast as one process without stand-ins gets on two cores.
BOTH_CORES = {'OMP_NUM_THREADS': '2', 'MXNET_CPU_TEMP_COPY': '64'}


@dataclass(frozen=True)
class Case:
    """A function of a module here (``what``), run by one or more processes at the same time.

    It trains on ``examples``, or on a ``share`` of what a run is given (ResNet-18 takes ten times
    as long as LeNet). Without the modules in ``needs`` it is left out; ``data``: it reads
    Fashion-MNIST; ``once``: one round is enough; ``quick``: ``--quick`` runs it too; ``memory``:
    its peak memory is sampled, which takes time, so its speed is not used.
    """

    what: str
    devices: int = 2
    batch: int = BATCH
    options: dict = field(default_factory=dict)
    processes: int = 1
    share: float = 1
    examples: int | None = None
    settings: dict = field(default_factory=dict)
    needs: tuple = ('mxnet',)
    data: bool = True
    once: bool = False
    quick: bool = False
    memory: bool = False

    def examples_of(self, examples):
        """Return how many examples it trains on: whole batches, at least one."""
        wanted = self.examples or examples * self.share
        return max(1, round(wanted / BATCH)) * BATCH


def scaling(name, what, batch=BATCH, both=BOTH_CORES, **about):
    """Make four cases: two devices, two processes, one device with one core, and with two.

    Two independent processes are the most that two cores can do. One device takes batches of
    ``batch``; two devices share one of ``BATCH``.
    """
    return {
        f'{name}, 2 devices': Case(what, **about),
        f'{name}, 2 processes': Case(what, 1, batch, processes=2, **about),
        f'{name}, 1 device': Case(what, 1, batch, **about),
        f'{name}, 1 device, 2 threads': Case(what, 1, batch, settings=both, **about),
    }


LENET = {'network': 'LeNet'}
RESNET = {'network': 'ResNet-18'}
SAME = {'network': "chapter 1's"}
TORCH = ('torch',)
D2L = ('mxnet', 'd2l')
FEW = 12_800  # 50 batches: more than Python runs ahead, so memory reaches its peak

CASES = {
    **scaling('from scratch', 'chapter1.train', quick=True),
    'from scratch, 2 devices, buckets': Case('chapter1.train', options={'buckets': True}),
    'original text, 2 devices': Case('peer_source.train', share=0.5, quick=True),
    'd2l, 2 devices': Case('peer_d2l.train', share=0.25, needs=D2L, quick=True),
    'd2l, 2 devices, our settings': Case(
        'peer_d2l.train', share=0.25, needs=D2L, settings=OUR_SETTINGS, quick=True
    ),
    'Gluon, chapter 1 network, 2 devices': Case('chapter2.train', options=SAME, quick=True),
    **scaling('Gluon LeNet', 'chapter2.train', options=LENET),
    **scaling('ResNet-18', 'chapter2.train', batch=128, options=RESNET, share=0.2),
    **scaling('evaluate LeNet', 'chapter2.evaluate', options=LENET),
    **scaling('evaluate ResNet-18', 'chapter2.evaluate', options=RESNET, share=0.2),
    **{
        f'allreduce, {network}, {k} devices': Case(
            'chapter3.measure', k, options={'network': network}, data=False, once=True
        )
        for network in ('LeNet', 'ResNet-18')
        for k in (2, 4)
    },
    # Two epochs each, so half the examples.
    'cluster, 2 workers': Case('chapter4.train', share=0.5),
    'cluster, 1 worker': Case('chapter4.train', 1, share=0.5),
    'cluster, 2 workers, dist_async': Case(
        'chapter4.train', options={'kind': 'dist_async'}, share=0.5
    ),
    'cluster, 2 workers, 2-bit': Case('chapter4.train', options={'compressed': True}, share=0.5),
    **scaling('PyTorch from scratch', 'chapter5.train', needs=TORCH, both={'OMP_NUM_THREADS': '2'}),
    'train_ddp, 2 processes': Case('chapter5.train_ddp', needs=TORCH, share=0.5, quick=True),
    'train_ddp.py, 2 processes': Case('chapter6.train', needs=TORCH, share=0.5, quick=True),
    'bare DDP, 2 processes': Case('peer_ddp.train', needs=TORCH, share=0.5, quick=True),
    'bare DDP, 2 processes, our memory settings': Case(
        'peer_ddp.train', needs=TORCH, share=0.5, settings=KEEP_MEMORY, quick=True
    ),
    **{
        f'pipeline, {m} micro-batches: time at work': Case(
            'chapter7.pipeline', options={'num_micro_batches': m}, data=False, needs=TORCH
        )
        for m in (2, 4, 8)
    },
    'limits of MXNet': Case('limits.mxnet', data=False, quick=True),
    'limits of PyTorch': Case('limits.torch', data=False, needs=TORCH),
    'import mgpu_helpers': Case(
        'imports.load', options={'module': 'mgpu_helpers'}, needs=(), data=False, quick=True
    ),
    'import d2l.mxnet': Case(
        'imports.load', options={'module': 'd2l.mxnet'}, needs=D2L, data=False
    ),
    'first step, from scratch': Case('chapter1.first_step', quick=True),
    'first step, Gluon LeNet': Case('chapter2.first_step', options=LENET),
    'first step, original text': Case('peer_source.first_step', quick=True),
    'first step, d2l': Case('peer_d2l.first_step', needs=D2L, quick=True),
    'first step, cluster of 2 workers': Case('chapter4.first_step'),
    'first step, DDP in 2 processes': Case('chapter5.first_step', needs=TORCH),
    'first step, train_ddp.py and its end': Case('chapter6.first_step', needs=TORCH),
    'first step, bare DDP in 2 processes': Case('peer_ddp.first_step', needs=TORCH),
    'memory, from scratch': Case('chapter1.train', examples=FEW, memory=True),
    'memory, Gluon, chapter 1 network': Case(
        'chapter2.train', options=SAME, examples=FEW, memory=True
    ),
    'memory, original text': Case('peer_source.train', examples=FEW, memory=True),
    'memory, d2l': Case('peer_d2l.train', needs=D2L, examples=FEW, memory=True),
    'memory, train_ddp': Case('chapter5.train_ddp', needs=TORCH, examples=FEW, memory=True),
    'memory, train_ddp.py': Case('chapter6.train', needs=TORCH, examples=FEW, memory=True),
    'memory, bare DDP': Case('peer_ddp.train', needs=TORCH, examples=FEW, memory=True),
}


def names_with(words):
    """List the cases with any of these words in their name, in the order of ``CASES``."""
    return [name for name in CASES if any(word in name for word in words)]


def usual(quick):
    """List the cases of a run without ``--only``."""
    return [name for name, case in CASES.items() if case.quick or not quick]
