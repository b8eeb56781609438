"""Compare published measurements (published.toml) with the predictions of our formulas.

Only ``NVLS_ARRIVES`` was fitted, to one of the measurements that it then predicts.
"""

from __future__ import annotations

from dataclasses import dataclass

from .costs import nvls
from .links import LINKS, PUBLISHED, Link
from .machines import MACHINES, Machine, communication_seconds

NCCL = PUBLISHED['nccl']
START, SMALLEST, NVLS_ARRIVES = NCCL['start'], NCCL['smallest'], NCCL['nvls_arrives']


@dataclass(frozen=True)
class AllReduce:
    """A published time of an NCCL allreduce, and our prediction."""

    run: str
    way: str  # 'ring' or 'NVLS'
    devices: int
    nbytes: int
    measured: float  # seconds
    predicted: float
    label: float  # bytes per second of the slowest link used

    @property
    def bus_bandwidth(self) -> float:
        """Return a ring's bus bandwidth in bytes per second, as nccl-tests defines it."""
        return 2 * (self.devices - 1) / self.devices * self.nbytes / self.measured

    @property
    def error(self) -> float:
        """Return our prediction's relative error, positive if the predicted time is too long."""
        return self.predicted / self.measured - 1


def nccl_seconds(devices: int, nbytes: float, machine: Machine, way: str = 'ring') -> float:
    """Predict the time of NCCL's allreduce: a kernel start, then a ring or a sum in the switch."""
    if way == 'ring':
        return START + communication_seconds(devices, nbytes, machine)
    label = LINKS[machine.link.name]
    link = Link('NVLS', NCCL['nvls_latency'], NVLS_ARRIVES * label.bandwidth)
    return nvls(devices, nbytes, link)


def _from_rate(devices: int, nbytes: int, gigabytes: float) -> float:
    """Convert a bus bandwidth, as nccl-tests defines it, to the seconds of an allreduce."""
    return 2 * (devices - 1) / devices * nbytes / (1e9 * gigabytes)


def nccl_runs() -> list[AllReduce]:
    """List the published measurements, run by run, smallest array first."""
    found = []
    for name, run in NCCL['runs'].items():
        devices, machine = run['devices'], MACHINES[run['machine']]
        rates, times = run.get('bus_gigabytes_per_second', ()), run.get('microseconds', ())
        for i in range(len(rates) + len(times)):
            nbytes = SMALLEST * 2**i
            way = 'NVLS' if nbytes >= run.get('nvls_from', float('inf')) else 'ring'
            measured = 1e-6 * times[i] if times else _from_rate(devices, nbytes, rates[i])
            ours = nccl_seconds(devices, nbytes, machine, way)
            slowest = machine.levels(devices)[-1][1]
            label = LINKS[slowest.name].bandwidth
            found.append(AllReduce(name, way, devices, nbytes, measured, ours, label))
    return found
