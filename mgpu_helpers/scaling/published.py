"""What others calculated and measured, beside what our formulas say: the error is part of it.

No figure here was fitted to a result. Speeds of links are those of ``LINKS``, speeds of GPUs were
measured on one GPU, and the formulas are those of ``costs`` and ``curves``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import checks
from ..collectives.filling import fill_buckets
from ..display import Table, percent, quantity
from .curves import step
from .links import LINKS
from .machines import MACHINES, Machine, sustained_flops
from .models import FLOAT32, MODELS

if TYPE_CHECKING:
    from .models import Model

NVIDIA = 'NVIDIA, MxNet/RN50v1.5'  # github.com/NVIDIA/DeepLearningExamples
HOROVOD = 'Horovod, docs/benchmarks'
# github.com/horovod/horovod/pull/44, 17 October 2017, took out a table for 4 servers and put in
# a chart for 32.
HOROVOD_4, HOROVOD_32 = 'Horovod, README before #44', 'Horovod, README after #44'

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
    """One published share of linear scaling (0 to 1), and ours for the same inputs."""

    what: str
    inputs: str  # what we calculated it from
    published: float
    predicted: float  # with all of the allreduce hidden that fits behind the backward pass
    unhidden: float  # with nothing hidden
    source: str  # who published it

    @property
    def error(self) -> float:
        """How much our figure is above the published one, as a share of that."""
        return self.predicted / self.published - 1


def published_scaling() -> list[Comparison]:
    """Compare shares of linear scaling: Horovod on up to 512 GPUs, MXNet on eight; rings both.

    Left out: GPUs that are now faster, now slower, so that all wait for the slowest; the first
    message, which waits for its gradients, and the last, behind which no backward pass is left;
    line rates that no program reaches; kernels of the allreduce, which take the GPU from the
    backward pass.
    """
    found = []
    for (devices, name), (share, source) in HOROVOD_MEASURED.items():
        model, rate = MODELS[name], IMAGES_PER_SECOND[name]
        buckets = len(fill_buckets([FLOAT32 * layer.parameters for layer in model.layers], FUSION))
        shares = _shares(model, 64, devices, horovod_machine(name), buckets)
        inputs = f'{quantity(model.nbytes, "B")} in {buckets}, {rate} images/s'
        found.append(Comparison(f'{name}, {devices} GPUs', inputs, share, *shares, source))
    model, machine = MODELS['ResNet-50'], MACHINES['p3.16xlarge']  # the same eight V100, NVLink 2
    inputs = f'{quantity(model.nbytes, "B")} in 1, 384 images/s'
    shares = _shares(model, 96, 8, machine, 1)
    return [*found, Comparison('ResNet-50, 8 GPUs', inputs, 7.82 / 8, *shares, NVIDIA)]


def horovod_machine(name: str) -> Machine:
    """Give the cluster of Horovod's benchmarks, its GPUs as fast as measured with one network.

    ``name`` is ``'Inception V3'``, ``'ResNet-101'`` or ``'VGG-16'``. Its source is arXiv 1802.05799
    and the README before #44; the 512 GPUs are taken to be as fast as the 16 whose speed is
    published. The network's latency is NCCL's figure of today; with that of 2021, 9.6 instead of
    14 microseconds, VGG-16 on 512 GPUs comes out at 90% instead of 89%.
    """
    checks.one_of('name', name, tuple(IMAGES_PER_SECOND))
    return Machine(
        f'4 Pascal GPUs a server, {name}',
        sustained_flops(MODELS[name], IMAGES_PER_SECOND[name]),
        LINKS['PCIe 3 x16'],
        devices_per_server=4,
        network=LINKS['25 Gb RoCE'],
    )


def _shares(
    model: Model, batch: int, devices: int, machine: Machine, buckets: int
) -> tuple[float, float]:
    """The efficiency with all hidden that fits, and with nothing hidden."""
    alone = step(model, batch, 1, machine).seconds
    hidden, shown = (
        step(model, batch, devices, machine, overlap=overlap, buckets=buckets).seconds
        for overlap in (True, False)
    )
    return alone / hidden, alone / shown


def published_table(comparisons: Sequence[Comparison]) -> Table:
    """Lay comparisons out, one per row, with the error of each."""
    rows = [
        [
            c.what,
            c.inputs,
            *map(percent, (c.published, c.unhidden, c.predicted)),
            f'{percent(abs(c.error))} {"more" if c.error > 0 else "less"}',
            c.source,
        ]
        for c in comparisons
    ]
    ours = ['ours, nothing hidden', 'ours, all hidden', 'its error']
    return Table(rows, ['what', 'from', 'published', *ours, 'source'])
