"""Links between devices: how long a message takes, and the published speeds of common ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from .. import checks
from ..display import Table, quantity

Entry = TypeVar('Entry')  # it has a name


class Library(dict[str, Entry]):
    """A dictionary of named things that says what there is, where something else is asked for."""

    def __init__(self, kind: str, entries: Iterable[Entry]) -> None:
        super().__init__((entry.name, entry) for entry in entries)  # type: ignore[attr-defined]
        self.kind = kind

    def __missing__(self, name: object) -> NoReturn:
        raise KeyError(
            f'there is no {self.kind} {name!r}; there are: {", ".join(self)}; or make your own'
        )


@dataclass(frozen=True)
class Link:
    """A connection between two devices: a fixed time for each message, and a time for each byte.

    Hockney's model of a message (1994). 1 GB is 10**9 bytes, and a network's Gb are bits: 25 Gb/s
    are 3.125 GB/s.
    """

    name: str
    latency: float  # seconds that every message takes, however short: the model's alpha
    # Bytes a second in one direction: 1 / the model's beta. What an allreduce's bus bandwidth (of
    # nccl-tests) is held against: 2 (k - 1)/k times its array's bytes a second, its algorithm
    # bandwidth.
    bandwidth: float
    source: str = ''  # of the two figures

    def __post_init__(self) -> None:
        checks.positive_number('latency in seconds', self.latency)
        checks.positive_number('bandwidth in bytes per second', self.bandwidth)

    def seconds(self, nbytes: float) -> float:
        """Give the time of one message: its latency, then its bytes one after the other."""
        return self.latency + nbytes / self.bandwidth


# Bandwidths are the published ones, in one direction: of PCIe without its encoding (1.5 %), of
# NVLink of all links of a GPU together. What arrives is less: NCCL's own model reckons with 12 GB/s
# for PCIe 3 x16 and with 20 GB/s for one NVLink of 25 (src/graph/topo.h).
# Latencies are typical values; other software on the same hardware has others. NCCL Simple: what
# its model charges a step of a ring between two GPUs with its protocol Simple (hwLat in
# src/graph/tuning.cc). LL is its protocol for short arrays: fewer microseconds, fewer bytes a
# second (llMaxBws in the same file; the last one is for two servers of A100).
LINKS = Library(
    'link',
    (
        Link('PCIe 3 x16', 5.7e-6, 16e9, 'PCI-SIG: 16 lanes at 8 GT/s; NCCL Simple'),
        Link('PCIe 4 x16', 5.7e-6, 32e9, 'PCI-SIG: 16 lanes at 16 GT/s; NCCL Simple'),
        Link('PCIe 5 x16', 5.7e-6, 64e9, 'PCI-SIG: 16 lanes at 32 GT/s; NCCL Simple'),
        Link('NVLink 2', 3.4e-6, 6 * 25e9, 'NVIDIA: V100, 6 links of 25 GB/s; NCCL Simple'),
        Link('NVLink 3', 3.4e-6, 12 * 25e9, 'NVIDIA: A100, 12 links of 25 GB/s; NCCL Simple'),
        Link('NVLink 4', 3.4e-6, 18 * 25e9, 'NVIDIA: H100, 18 links of 25 GB/s; NCCL Simple'),
        Link('10 Gb Ethernet', 20e-6, 10e9 / 8, 'IEEE 802.3ae; TCP, Hurwitz and Feng 2003'),
        Link('25 Gb RoCE', 14e-6, 25e9 / 8, 'IEEE 802.3by; NCCL Simple'),
        Link('100 Gb InfiniBand', 14e-6, 100e9 / 8, 'IBTA: EDR, 4 lanes; NCCL Simple'),
        Link('400 Gb InfiniBand', 14e-6, 400e9 / 8, 'IBTA: NDR, 4 lanes; NCCL Simple'),
        Link('4 x 100 Gb EFA', 14e-6, 400e9 / 8, 'AWS: p4d.24xlarge; NCCL Simple'),
        Link('8 x 200 Gb IB', 14e-6, 1600e9 / 8, 'NVIDIA: DGX A100; NCCL Simple'),
        Link('8 x 400 Gb IB', 14e-6, 3200e9 / 8, 'NVIDIA: DGX H100; NCCL Simple'),
        Link('NVLink 3, LL', 0.6e-6, 87.7e9, 'NCCL LL'),
        Link('NVLink 4, LL', 0.6e-6, 141e9, 'NCCL LL'),
        Link('4 x 100 Gb EFA, LL', 2.7e-6, 22.5e9, 'NCCL LL'),
    ),
)


def links_table() -> Table:
    """Lay the published links out, one per row."""
    rows = [
        (link.name, quantity(link.latency, 's'), quantity(link.bandwidth, 'B/s'), link.source)
        for link in LINKS.values()
    ]
    return Table(rows, ['link', 'latency', 'bandwidth', 'source: bandwidth; latency'])
