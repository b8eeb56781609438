"""What others measured, beside what our formulas say: the error is part of it.

No figure here was fitted to a result. Speeds of links are those of ``LINKS``, speeds of GPUs were
measured on one GPU, and the formulas are those of ``costs`` and ``curves``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import checks
from ..collectives.bucket_layout import fill_buckets
from ..display import NONE, Table, percent, quantity
from .curves import step
from .links import LINKS
from .machines import MACHINES, Machine, communication_seconds
from .models import FLOAT32, MODELS

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
    """Compare shares of linear scaling: Horovod's rings on up to 512 GPUs.

    Left out: GPUs that are now faster, now slower; the first message, which waits for its
    gradients, and the last, behind which no backward pass is left; line rates that no program
    reaches; kernels of the allreduce, which take the GPU from the backward pass.
    """
    found = []
    for (devices, name), (share, source) in HOROVOD_MEASURED.items():
        model, rate = MODELS[name], IMAGES_PER_SECOND[name]
        buckets = len(fill_buckets([FLOAT32 * layer.parameters for layer in model.layers], FUSION))
        machine = horovod_machine(name)
        alone = step(model, 64, 1, machine).seconds
        hidden, shown = (
            alone / step(model, 64, devices, machine, overlap=overlap, buckets=buckets).seconds
            for overlap in (True, False)
        )
        inputs = f'{quantity(model.nbytes, "B")} in {buckets}, {rate} images/s'
        what = f'{name}, {devices} GPUs'
        found.append(Comparison(what, inputs, share, hidden, shown, source))
    return found


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
        3 * MODELS[name].flops * IMAGES_PER_SECOND[name],
        LINKS['PCIe 3 x16'],
        devices_per_server=4,
        network=LINKS['25 Gb RoCE'],
    )


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


# What NCCL's model charges a ring before its first step, with Simple and LL: its kernel's start on
# all devices (baseLat in src/graph/tuning.cc).
STARTS = {'': 8.4e-6, ', LL': 6.6e-6}
SMALLEST = 32 * 1024  # bytes; each next array is twice as long
_H200 = (3.2, 6.26, 12.4, 24.63, 48.3, 72.45, 91.48, 139.97, 182.03, 242.45, 298.44, 369.82)
_H200 += (411.21, 442.27, 455.82, 464.0, 468.31, 473.1, 475.16, 480.7)  # GB/s, bus bandwidth
_A100 = (43.83, 46.8, 51.76, 61.38, 80.4, 101.9, 101.4, 101.5, 133.5, 276.6, 424.0, 684.6)
_A100 += (1327.6, 2420.6, 4218.4, 8203.9, 16240, 32136, 64074, 127997)  # microseconds
_P4D = (260.1, 273.9, 294.2, 304.9, 409.7, 483.5, 660.3, 817, 1228, 1895.5, 3106.8, 5567.2)
_P4D += (9388.6, 16865, 32206, 61556)  # microseconds
# What all_reduce_perf of nccl-tests measured, out of place: (devices, machine, seconds). 8 H200:
# github.com/stas00/ml-engineering, network/benchmarks, 2026, NCCL 2.30.7. 8 A100: the same,
# network. 2 x 8 A100: github.com/aws-samples/aws-efa-eks, two p4d.24xlarge, NCCL 2.8.3.
NCCL_MEASURED = {
    '8 H200': (8, 'DGX H100', [1.75e-9 * SMALLEST * 2**i / x for i, x in enumerate(_H200)]),
    '8 A100': (8, 'p4d.24xlarge', [1e-6 * x for x in _A100]),
    '2 x 8 A100': (16, 'p4d.24xlarge', [1e-6 * x for x in _P4D]),
}


def nccl_seconds(devices: int, nbytes: float, machine: Machine) -> float:
    """Predict a ring of NCCL, with the faster of its protocols Simple and LL, its start included.

    A link of which we know no LL is taken as it is.
    """

    def ring(protocol: str) -> float:
        link, network = (one and LINKS.get(one.name + protocol, one) for one in joints)
        spoken = replace(machine, link=link, network=network)  # type: ignore[arg-type]
        return STARTS[protocol] + communication_seconds(devices, nbytes, spoken)

    joints = machine.link, machine.network
    return min(map(ring, STARTS))


def nccl_errors() -> dict[str, list[float]]:
    """Give predicted / measured - 1 for each array of each run of ``NCCL_MEASURED``."""
    return {
        name: [
            nccl_seconds(devices, SMALLEST * 2**i, MACHINES[machine]) / seconds - 1
            for i, seconds in enumerate(measured)
        ]
        for name, (devices, machine, measured) in NCCL_MEASURED.items()
    }


def nccl_table() -> Table:
    """Lay out every array of ``NCCL_MEASURED``: what was measured, and the prediction's error."""
    errors, rows = nccl_errors(), []
    for i in range(len(_H200)):
        row = [quantity(SMALLEST * 2**i, 'B')]
        for name, (_, _, measured) in NCCL_MEASURED.items():
            some = i < len(measured)
            row += [quantity(measured[i], 's'), f'{errors[name][i]:+.0%}'] if some else [NONE, NONE]
        rows.append(row)
    return Table(rows, ['array', *(head for name in NCCL_MEASURED for head in (name, 'error'))])
