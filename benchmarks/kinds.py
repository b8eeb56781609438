"""What is measured, and which two kinds of run are compared."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Kind:
    """Processes that run at the same time.

    Parameters
    ----------
    runs : list of tuple
        For each process: a name in ``run.RUNS``, how many devices, the batch size.
    share : float
        Which part of the examples: ResNet-18 takes ten times as long as LeNet.
    settings : dict
        Environment variables for these processes.
    needs : str
        The framework without which this kind is left out.
    once : bool
        Whether the first round is enough: a long run whose speed is not what counts.
    found_by : str
        Another word by which ``--only`` chooses it.
    """

    runs: list
    share: float = 1
    settings: dict = field(default_factory=dict)
    needs: str = 'mxnet'
    once: bool = False
    found_by: str = ''


def torch_kind(*runs, **options):
    return Kind(list(runs), needs='torch', **options)


# glibc's settings of runtime.py, for a process that does not import it: it keeps freed memory.
KEEP_MEMORY = {
    'MALLOC_TRIM_THRESHOLD_': '2147483647',
    'MALLOC_TOP_PAD_': '67108864',
    'MALLOC_MMAP_THRESHOLD_': '33554432',
    'MALLOC_MMAP_MAX_': '0',
}


KINDS = {
    'from scratch, 2 devices': Kind([('scratch', 2, 256)]),
    'from scratch, 2 processes': Kind([('scratch', 1, 256)] * 2),
    'from scratch, 1 device': Kind([('scratch', 1, 256)]),
    'from scratch, 1 device, 2 threads': Kind(
        [('scratch', 1, 256)],
        settings={'OMP_NUM_THREADS': '2', 'MXNET_CPU_TEMP_COPY': '64'},
    ),
    'from scratch, 2 devices, buckets': Kind([('scratch in buckets', 2, 256)]),
    'from scratch, 2 devices, batch 64': Kind([('scratch', 2, 64)], share=0.5),
    'from scratch, 2 devices, batch 64, buckets': Kind([('scratch in buckets', 2, 64)], share=0.5),
    'allreduces': Kind([('collectives', 4, 1)], once=True),
    'source 000, 2 devices': Kind([('peer', 2, 256)]),
    'Gluon, chapter 1 network, 2 devices': Kind([('gluon lenet of chapter 1', 2, 256)]),
    'Gluon LeNet, 2 devices': Kind([('gluon lenet', 2, 256)], found_by='cluster'),
    'Gluon LeNet, 2 processes': Kind([('gluon lenet', 1, 256)] * 2),
    'Gluon LeNet, 1 device': Kind([('gluon lenet', 1, 256)]),
    'ResNet-18, 2 devices': Kind([('gluon resnet', 2, 256)], share=0.2),
    'ResNet-18, 2 processes': Kind([('gluon resnet', 1, 128)] * 2, share=0.2),
    'ResNet-18, 1 device': Kind([('gluon resnet', 1, 128)], share=0.2),
    'ResNet-18, 2 devices, each updates': Kind([('each device updates', 2, 256)], share=0.2),
    'evaluate LeNet, 2 devices': Kind([('evaluate lenet', 2, 256)]),
    'evaluate LeNet, 1 device': Kind([('evaluate lenet', 1, 256)]),
    'evaluate ResNet-18, 2 devices': Kind([('evaluate resnet', 2, 256)], share=0.2),
    'evaluate ResNet-18, 1 device': Kind([('evaluate resnet', 1, 256)], share=0.2),
    # Two epochs each, so half the examples.
    'cluster, 2 workers': Kind([('cluster', 2, 256)], share=0.5),
    'cluster, 1 worker': Kind([('cluster', 1, 256)], share=0.5),
    'cluster, 2 workers, no waits': Kind([('cluster, no waits', 2, 256)], share=0.5),
    'cluster, 2 workers, dist_async': Kind([('cluster, dist_async', 2, 256)], share=0.5),
    'cluster, 2 workers, 2-bit': Kind([('cluster, 2-bit', 2, 256)], share=0.5),
    'PyTorch from scratch, 2 devices': torch_kind(('torch scratch', 2, 256)),
    'PyTorch from scratch, 1 device': torch_kind(('torch scratch', 1, 256)),
    'PyTorch from scratch, 2 processes': torch_kind(*[('torch scratch', 1, 256)] * 2),
    'train_ddp, 2 processes': torch_kind(('torch ddp', 2, 256)),
    'bare DDP, 2 processes': torch_kind(('bare ddp', 2, 256)),
    'bare DDP, 2 processes, our memory settings': torch_kind(
        ('bare ddp', 2, 256), settings=KEEP_MEMORY
    ),
    'source 004, ten epochs, 1 device': torch_kind(('ten epochs', 1, 256), once=True),
    'source 004, ten epochs, 2 devices': torch_kind(('ten epochs', 2, 256), once=True),
}
# What stands in the table: two kinds whose ratio it is, and what we want it to be.
RATIOS = [
    ('from scratch, 2 devices', 'from scratch, 2 processes', '≥ 0.93'),
    ('from scratch, 2 devices', 'from scratch, 1 device', '≥ 1.7'),
    ('from scratch, 2 devices', 'from scratch, 1 device, 2 threads', ''),
    ('from scratch, 2 devices', 'source 000, 2 devices', '≥ 2.0'),
    ('from scratch, 2 devices, buckets', 'from scratch, 2 devices', '≥ 1.0'),
    (
        'from scratch, 2 devices, batch 64, buckets',
        'from scratch, 2 devices, batch 64',
        '≥ 1.0',
    ),
    ('from scratch, 2 devices', 'Gluon, chapter 1 network, 2 devices', '≥ 0.9'),
    ('Gluon LeNet, 2 devices', 'Gluon LeNet, 2 processes', '≥ 0.93'),
    ('Gluon LeNet, 2 devices', 'Gluon LeNet, 1 device', '≥ 1.75'),
    ('ResNet-18, 2 devices', 'ResNet-18, 2 processes', '≥ 0.93'),
    ('ResNet-18, 2 devices', 'ResNet-18, 1 device', '≥ 1.85'),
    ('ResNet-18, 2 devices', 'ResNet-18, 2 devices, each updates', ''),
    ('evaluate LeNet, 2 devices', 'evaluate LeNet, 1 device', '≥ 1.7'),
    ('evaluate ResNet-18, 2 devices', 'evaluate ResNet-18, 1 device', '≥ 1.7'),
    ('cluster, 2 workers', 'cluster, 1 worker', ''),
    ('cluster, 2 workers', 'Gluon LeNet, 2 devices', ''),
    ('cluster, 2 workers', 'cluster, 2 workers, no waits', ''),
    ('cluster, 2 workers, dist_async', 'cluster, 2 workers', ''),
    ('cluster, 2 workers, 2-bit', 'cluster, 2 workers', ''),
    ('PyTorch from scratch, 2 devices', 'PyTorch from scratch, 1 device', '≥ 1.8'),
    ('PyTorch from scratch, 2 devices', 'PyTorch from scratch, 2 processes', ''),
    ('PyTorch from scratch, 2 devices', 'bare DDP, 2 processes', ''),
    ('train_ddp, 2 processes', 'bare DDP, 2 processes, our memory settings', '≥ 0.98'),
    ('train_ddp, 2 processes', 'bare DDP, 2 processes', '≥ 0.98'),
    ('Gluon, chapter 1 network, 2 devices', 'bare DDP, 2 processes', '≥ 0.95'),
    ('from scratch, 2 devices', 'bare DDP, 2 processes', ''),
]
MEMORY = 'from scratch, 2 devices'
ACCURACIES = [name for name in KINDS if 'ten epochs' in name]
ALLREDUCES = 'allreduces'  # its own table


def names_with(words):
    """List the kinds that ``--only`` chooses by any of these words, in the order of ``KINDS``."""
    return [
        name
        for name, kind in KINDS.items()
        if any(word in text for word in words for text in (name, kind.found_by))
    ]
