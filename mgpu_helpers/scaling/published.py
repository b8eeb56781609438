"""What others measured (published.toml), beside what our formulas predict, and the error.

One number comes from a row of what it then explains: ``NVLS_ARRIVES``. Nothing else was fitted to a
result.
"""

from __future__ import annotations

from dataclasses import dataclass

from .. import arguments
from ..collectives.messages import fill_buckets
from .costs import nvls
from .curves import step
from .links import LINKS, PUBLISHED, Link
from .machines import MACHINES, Machine, communication_seconds
from .models import FLOAT32, MODELS
from .simulator import simulate

HOROVOD, NCCL = PUBLISHED['horovod'], PUBLISHED['nccl']
IMAGES_PER_SECOND, FUSION = HOROVOD['images_per_second'], HOROVOD['fusion']  # FUSION in bytes
START, SMALLEST, NVLS_ARRIVES = NCCL['start'], NCCL['smallest'], NCCL['nvls_arrives']
# (GPUs, network): share of linear scaling, source
HOROVOD_MEASURED = {(gpus, name): tuple(row) for gpus, name, *row in HOROVOD['efficiency']}


def horovod_machine(name: str) -> Machine:
    """Give the cluster of Horovod's benchmarks, its GPUs as fast as measured with one network.

    arXiv 1802.05799 and the README before #44; the 512 GPUs are taken to be as fast as the 16 whose
    speed is published.
    """
    arguments.one_of('name', name, tuple(IMAGES_PER_SECOND))
    return Machine(
        f'4 Pascal GPUs a server, {name}',
        3 * MODELS[name].flops * IMAGES_PER_SECOND[name],
        LINKS['PCIe 3 x16'].arriving(),
        devices_per_server=4,
        network=LINKS['25 Gb RoCE'].arriving(),
    )


def horovod_shares(name: str, devices: int = 512, batch: int = 64) -> dict[str, float]:
    """Give shares of linear scaling, 0 to 1: measured, and ours, from formulas and simulations.

    Left out by all of ours: kernels of the allreduce, which take the GPU from the backward pass.
    """
    model, machine = MODELS[name], horovod_machine(name)
    buckets = len(fill_buckets([FLOAT32 * layer.parameters for layer in model.layers], FUSION))
    shares = {'measured': HOROVOD_MEASURED[devices, name][0]}
    alone = step(model, batch, 1, machine).seconds
    for label, overlap in (('nothing hidden', False), ('hidden as far as it fits', True)):
        found = step(model, batch, devices, machine, overlap=overlap, buckets=buckets)
        shares[label] = alone / found.seconds
    for label, spread in (('buckets', 0), ('buckets, 5% spread', 0.05)):
        run = simulate(model, batch, devices, machine, 'ring', FUSION, spread, steps=3)
        shares[label] = run.efficiency
    return shares


@dataclass(frozen=True)
class AllReduce:
    """One published time of NCCL, and ours."""

    run: str
    way: str  # 'ring' or 'NVLS'
    devices: int
    nbytes: int
    measured: float  # seconds
    predicted: float

    @property
    def error(self) -> float:
        """How much ours is above the measured time, as a share of that."""
        return self.predicted / self.measured - 1


def nccl_seconds(devices: int, nbytes: float, machine: Machine, way: str = 'ring') -> float:
    """Predict NCCL's allreduce: its kernel's start, then a ring, or the sum in the switch."""
    if way == 'ring':
        return START + communication_seconds(devices, nbytes, machine)
    label = LINKS[machine.link.name]
    link = Link('NVLS', NCCL['nvls_latency'], NVLS_ARRIVES * label.bandwidth)
    return nvls(devices, nbytes, link)


def _from_rate(devices: int, nbytes: int, gigabytes: float) -> float:
    """Give the seconds behind a bus bandwidth, as nccl-tests defines it."""
    return 2 * (devices - 1) / devices * nbytes / (1e9 * gigabytes)


def nccl_runs() -> list[AllReduce]:
    """List every array of every published run, in order of their sizes."""
    found = []
    for name, run in NCCL['runs'].items():
        devices, machine = run['devices'], MACHINES[run['machine']]
        rates, times = run.get('bus_gigabytes_per_second', ()), run.get('microseconds', ())
        for i in range(len(rates) + len(times)):
            nbytes = SMALLEST * 2**i
            way = 'NVLS' if nbytes >= run.get('nvls_from', float('inf')) else 'ring'
            measured = 1e-6 * times[i] if times else _from_rate(devices, nbytes, rates[i])
            ours = nccl_seconds(devices, nbytes, machine, way)
            found.append(AllReduce(name, way, devices, nbytes, measured, ours))
    return found


def nccl_counts() -> list[AllReduce]:
    """List the published runs of 8 GiB on four to eight GPUs, with NVLS and without."""
    return [
        AllReduce(
            chip,
            way,
            int(devices),
            2**33,
            _from_rate(int(devices), 2**33, rate),
            nccl_seconds(int(devices), 2**33, MACHINES[rows['machine']], way),
        )
        for chip, rows in NCCL['counts'].items()
        for way, key in (('ring', 'ring'), ('NVLS', 'nvls'))
        for devices, rate in rows[key].items()
    ]
