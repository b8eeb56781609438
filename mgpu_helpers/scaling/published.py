"""What others measured (published.toml), beside what our formulas predict, and the error.

None was fitted to a result: speeds of GPUs were measured on one GPU, links are those of ``LINKS``.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import checks
from ..collectives.messages import fill_buckets
from ..display import NONE, Table, percent, quantity
from .curves import step
from .links import LINKS, PUBLISHED
from .machines import MACHINES, Machine, communication_seconds
from .models import FLOAT32, MODELS

HOROVOD, NCCL = PUBLISHED['horovod'], PUBLISHED['nccl']
IMAGES_PER_SECOND, FUSION = HOROVOD['images_per_second'], HOROVOD['fusion']  # FUSION in bytes
STARTS, SMALLEST = NCCL['starts'], NCCL['smallest']
# (GPUs, network): share of linear scaling, source
HOROVOD_MEASURED = {(gpus, name): tuple(row) for gpus, name, *row in HOROVOD['efficiency']}


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
    comparisons = []
    for (devices, name), (share, source) in HOROVOD_MEASURED.items():
        model, rate = MODELS[name], IMAGES_PER_SECOND[name]
        buckets = len(fill_buckets([FLOAT32 * layer.parameters for layer in model.layers], FUSION))
        machine = horovod_machine(name)
        alone = step(model, 64, 1, machine).seconds
        hidden, unhidden = (
            alone / step(model, 64, devices, machine, overlap=overlap, buckets=buckets).seconds
            for overlap in (True, False)
        )
        inputs = f'{quantity(model.nbytes, "B")} in {buckets}, {rate} images/s'
        what = f'{name}, {devices} GPUs'
        comparisons.append(Comparison(what, inputs, share, hidden, unhidden, source))
    return comparisons


def horovod_machine(name: str) -> Machine:
    """Give the cluster of Horovod's benchmarks, its GPUs as fast as measured with one network.

    arXiv 1802.05799 and the README before #44; the 512 GPUs are taken to be as fast as the 16 whose
    speed is published. The network's latency is NCCL's of today; with that of 2021, 9.6 instead of
    14 µs, VGG-16 on 512 GPUs comes out at 90% instead of 89%.
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
    rows = []
    for c in comparisons:
        error = f'{percent(abs(c.error))} {"more" if c.error > 0 else "less"}'
        shares = map(percent, (c.published, c.unhidden, c.predicted))
        rows.append([c.what, c.inputs, *shares, error, c.source])
    ours = ['ours, nothing hidden', 'ours, all hidden', 'its error']
    return Table(rows, ['what', 'from', 'published', *ours, 'source'])


def nccl_seconds(devices: int, nbytes: float, machine: Machine) -> float:
    """Predict a ring of NCCL, with the faster of its protocols Simple and LL, its start included.

    A link whose LL figures are not published keeps those of Simple.
    """
    choices = []
    for protocol, start in STARTS.items():
        link = LINKS.get(machine.link.name + protocol, machine.link)
        network = machine.network and LINKS.get(machine.network.name + protocol, machine.network)
        joined = replace(machine, link=link, network=network)
        choices.append(start + communication_seconds(devices, nbytes, joined))
    return min(choices)


def nccl_runs() -> dict[str, list[tuple[float, float]]]:
    """Give seconds measured and predicted, run by run, each array twice as long as the last."""
    runs = {}
    for name, run in NCCL['runs'].items():
        devices, machine = run['devices'], MACHINES[run['machine']]
        measured = [1e-6 * time for time in run.get('microseconds', ())]
        for i, rate in enumerate(run.get('bus_gigabytes_per_second', ())):
            measured.append(2 * (devices - 1) / devices * 1e-9 * SMALLEST * 2**i / rate)
        predicted = [nccl_seconds(devices, SMALLEST * 2**i, machine) for i in range(len(measured))]
        runs[name] = list(zip(measured, predicted, strict=True))
    return runs


def nccl_table() -> Table:
    """Lay out every array of ``nccl_runs``: the time measured, and the prediction's error."""
    rows, runs = [], nccl_runs()
    for i, results in enumerate(itertools.zip_longest(*runs.values())):
        row = [quantity(SMALLEST * 2**i, 'B')]
        for result in results:
            if result is None:  # this run ended with a shorter array
                row += [NONE, NONE]
            else:
                measured, predicted = result
                row += [quantity(measured, 's'), f'{predicted / measured - 1:+.0%}']
        rows.append(row)
    return Table(rows, ['array', *(head for name in runs for head in (name, 'error'))])
