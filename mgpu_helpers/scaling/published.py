"""What others calculated and measured, beside what our formulas say: the error is part of it.

No figure here was fitted to a result. Speeds of links are those of ``LINKS``, speeds of GPUs were
measured on one GPU, and the formulas are those of ``costs`` and ``curves``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import checks
from . import costs
from .curves import step
from .links import LINKS, Link
from .machines import MACHINES, Machine, sustained_flops
from .models import FLOAT32, MODELS, short

if TYPE_CHECKING:
    from ..display import Table
    from .models import Model

D2L = 'd2l.ai, Parameter Servers'
NVIDIA = 'NVIDIA, MxNet/RN50v1.5'  # github.com/NVIDIA/DeepLearningExamples
HOROVOD = 'Horovod, docs/benchmarks'
HOROVOD_32 = (
    'Horovod, README after #44'  # github.com/horovod/horovod/pull/44, 17 October 2017, took
)
HOROVOD_4 = 'Horovod, README before #44'  # out a table for 4 servers and put in a chart for 32

# On one GPU of Horovod's cluster, batch 64 (README before #44). The GPUs are Pascals on PCIe (issue
# 979), four to a server with one link, RoCE at 25 Gb/s.
IMAGES_PER_SECOND = {'Inception V3': 134.4, 'ResNet-101': 119.4, 'VGG-16': 130.9}
# Horovod joins gradients to messages of at most so many bytes (arXiv 1802.05799); cuts none.
FUSION = 64 * 2**20

# (GPUs, network): share of linear scaling, with RDMA and NCCL.
HOROVOD_MEASURED = {
    (16, 'Inception V3'): (15.0 / 16, HOROVOD_4),  # published as speed-ups over one GPU
    (16, 'ResNet-101'): (14.6 / 16, HOROVOD_4),
    (16, 'VGG-16'): (13.7 / 16, HOROVOD_4),
    (128, 'Inception V3'): (0.90, HOROVOD_32),
    (128, 'ResNet-101'): (0.90, HOROVOD_32),
    (128, 'VGG-16'): (0.79, HOROVOD_32),
    (512, 'Inception V3'): (0.90, HOROVOD),
    (512, 'ResNet-101'): (0.90, HOROVOD),
    (512, 'VGG-16'): (0.68, HOROVOD),
}


@dataclass(frozen=True)
class Comparison:
    """One published figure, and ours for the same inputs.

    Parameters
    ----------
    what : str
        What it is.
    inputs : str
        What we calculated it from.
    published, predicted : float
        Seconds, or the share of linear scaling (0 to 1).
    source : str
        Who published it.
    unhidden : float, optional
        Of a share: what it would be if no communication were hidden.
    note : str
        Why the two differ, where that is known exactly.

    Examples
    --------
    >>> f'{Comparison("x", "", published=0.8, predicted=0.9, source="").error:.3f}'
    '0.125'
    """

    what: str
    inputs: str
    published: float
    predicted: float
    source: str
    unhidden: float | None = None
    note: str = ''

    @property
    def error(self) -> float:
        """float: how much our figure is above the published one, as a share of that."""
        return self.predicted / self.published - 1


def published_times() -> list[Comparison]:
    """Compare the times of allreduces that Dive into Deep Learning works out.

    Returns
    -------
    list of Comparison
        In seconds.

    Notes
    -----
    The book leaves latencies out, and in the ring also the factor (k-1)/k: 2 n / B = 5.9 ms, in the
    text "approximately 6 ms". Ours has both.

    Examples
    --------
    >>> [f'{1000 * c.predicted:.1f} ms' for c in published_times()]
    ['60.0 ms', '80.0 ms', '15.0 ms', '5.2 ms']
    """
    n, pcie = 160e6, LINKS['PCIe 3 x16']
    links = Link('3 NVLinks', LINKS['NVLink 2'].latency, 3 * 18e9, D2L)
    on_pcie = '160 MB, 4 GPUs, 16 GB/s, 5.7 µs'
    return [
        Comparison('gathered on one GPU', on_pcie, 60e-3, costs.naive(4, n, pcie), D2L),
        Comparison('through the CPU', on_pcie, 80e-3, costs.through_host(4, n, pcie), D2L),
        Comparison('sharded four ways', on_pcie, 15e-3, costs.sharded(4, n, pcie), D2L),
        Comparison(
            'ring',
            '160 MB, 8 GPUs, 3 x 18 GB/s, 3.4 µs',
            6e-3,
            costs.ring(8, n, links),
            D2L,
            note='the source has no (k-1)/k = 7/8',
        ),
    ]


def published_scaling(algorithm: str = 'ring') -> list[Comparison]:
    """Compare shares of linear scaling: Horovod on up to 512 GPUs, MXNet on eight.

    Parameters
    ----------
    algorithm : str
        ``'ring'`` through all GPUs, as Horovod's ran, or ``'hierarchical'``.

    Returns
    -------
    list of Comparison
        Shares of linear scaling.

    Raises
    ------
    ValueError
        If there is no such algorithm.

    Notes
    -----
    ``predicted`` lets all of the allreduce hide that fits behind the backward pass, ``unhidden``
    none of it. What both leave out: GPUs that are now faster, now slower, so that all wait for the
    slowest; the first message, which waits for its gradients, and the last, behind which no
    backward pass is left; line rates that no program reaches; kernels of the allreduce, which take
    the GPU from the backward pass.

    Horovod: batch 64 on each GPU, servers of four with 25 Gb/s (``LINKS['25 Gb RoCE']``, 14
    microseconds). ResNet-50: batch 96, eight V100 with NVLink 2. The latency of the network is
    NCCL's figure of today; its version of 2021 had 9.6 instead of 14 microseconds, with which
    VGG-16 on 512 GPUs comes out at 88% instead of 85%. The 512 GPUs are taken to be as fast as the
    16 whose speed is published.

    Examples
    --------
    >>> largest = [c for c in published_scaling() if '512' in c.what]
    >>> for c in largest:
    ...     print(f'{c.what}: {c.published:.0%}, we say {c.predicted:.0%}')
    Inception V3, 512 GPUs: 90%, we say 100%
    ResNet-101, 512 GPUs: 90%, we say 100%
    VGG-16, 512 GPUs: 68%, we say 85%
    """
    found = []
    for (devices, name), (share, source) in HOROVOD_MEASURED.items():
        model, rate = MODELS[name], IMAGES_PER_SECOND[name]
        machine = horovod_machine(name)
        messages = _messages(model)
        inputs = f'{short(model.nbytes)}B in {messages}, {rate} images/s'
        shares = _shares(model, 64, devices, machine, algorithm=algorithm, messages=messages)
        found.append(
            Comparison(f'{name}, {devices} GPUs', inputs, share, shares[0], source, shares[1])
        )
    model, machine = MODELS['ResNet-50'], MACHINES['p3.16xlarge']  # the same eight V100, NVLink 2
    shares = _shares(model, 96, 8, machine, algorithm=algorithm)
    inputs = f'{short(model.nbytes)}B in 1, 384 images/s'
    found.append(Comparison('ResNet-50, 8 GPUs', inputs, 7.82 / 8, shares[0], NVIDIA, shares[1]))
    return found


def horovod_machine(name: str) -> Machine:
    """Give the cluster of Horovod's benchmarks, its GPUs as fast as measured with one network.

    Parameters
    ----------
    name : str
        ``'Inception V3'``, ``'ResNet-101'`` or ``'VGG-16'``.

    Returns
    -------
    Machine

    Raises
    ------
    ValueError
        If the network is another.

    Examples
    --------
    >>> f'{horovod_machine("ResNet-101").flops / 1e12:.1f} TFLOP/s'
    '5.6 TFLOP/s'
    """
    checks.one_of('name', name, tuple(IMAGES_PER_SECOND))
    return Machine(
        f'4 Pascal GPUs a server, {name}',
        sustained_flops(MODELS[name], IMAGES_PER_SECOND[name]),
        LINKS['PCIe 3 x16'],
        devices_per_server=4,
        network=LINKS['25 Gb RoCE'],
        source='arXiv 1802.05799, README before #44',
    )


def _messages(model: Model) -> int:
    """Count what the gradients join to, from the last layer to the first; none is cut."""
    count = free = 0
    for layer in reversed(model.layers):
        nbytes = FLOAT32 * layer.parameters
        if nbytes > free:
            count, free = count + 1, FUSION
        free -= nbytes
    return count


def _shares(
    model: Model, batch: int, devices: int, machine: Machine, **options: Any
) -> list[float]:
    """The efficiency with all hidden that fits, and with nothing hidden."""
    alone = step(model, batch, 1, machine).seconds
    return [
        alone / step(model, batch, devices, machine, overlap=overlap, **options).seconds
        for overlap in (True, False)
    ]


def published_table(comparisons: Sequence[Comparison]) -> Table:
    """Lay comparisons out, one per row, with the error of each.

    Parameters
    ----------
    comparisons : list of Comparison
        From ``published_times`` or ``published_scaling``.

    Returns
    -------
    mgpu_helpers.display.Table

    Raises
    ------
    ValueError
        If they are of both kinds: seconds and shares have no column in common.

    Examples
    --------
    >>> published_table(published_times()).rows[3][2:6]
    ['6 ms', '5.23 ms', '13% less', 'the source has no (k-1)/k = 7/8']
    """
    from ..display import Table
    from .drawings import milliseconds

    shares = any(c.unhidden is not None for c in comparisons)
    if shares and any(c.unhidden is None for c in comparisons):
        raise ValueError(
            'these comparisons are of times and of efficiencies: make a table of each, '
            'published_table(published_times()) and published_table(published_scaling())'
        )
    write = '{:.0%}'.format if shares else milliseconds
    rows, heads = [], ['what', 'from', 'published', 'ours', 'error', 'why', 'source']
    for c in comparisons:
        ours = [write(c.predicted), _error(c.error)]
        more = [c.note] if c.unhidden is None else [write(c.unhidden)]
        middle = [*more, *ours] if shares else [*ours, *more]
        published = write(c.published) if shares else f'{1000 * c.published:g} ms'
        rows.append([c.what, c.inputs, published, *middle, c.source])
    if shares:
        heads[3:6] = ['ours, nothing hidden', 'ours, all hidden', 'its error']
    return Table(rows, heads)


def _error(share: float) -> str:
    return f'{abs(share):.0%} {"more" if share > 0 else "less"}' if abs(share) >= 0.005 else '0%'
