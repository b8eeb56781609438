"""Links between devices: how long a message takes, and the published speeds of common ones."""

from dataclasses import dataclass

from .. import checks


@dataclass(frozen=True)
class Link:
    """A connection between two devices: a fixed time for each message, and a time for each byte.

    Parameters
    ----------
    name : str
        What it is called in a table.
    latency : float
        Seconds that every message takes, however short; the model's alpha. Above 0.
    bandwidth : float
        Bytes a second in one direction; 1 / the model's beta. Above 0.
    source : str
        Where the two figures come from.

    Raises
    ------
    TypeError, ValueError
        If latency or bandwidth is not a finite number above 0.

    Notes
    -----
    Hockney's model of a message (1994). 1 GB is 10**9 bytes, and a network's Gb are bits: 25 Gb/s
    are 3.125 GB/s.

    Examples
    --------
    >>> link = Link('PCIe 3 x16', latency=5.7e-6, bandwidth=16e9)
    >>> f'{link.seconds(160e6) * 1000:.3f} ms'
    '10.006 ms'
    """

    name: str
    latency: float
    bandwidth: float
    source: str = ''

    def __post_init__(self):
        checks.positive_number('latency in seconds', self.latency)
        checks.positive_number('bandwidth in bytes per second', self.bandwidth)

    def seconds(self, nbytes):
        """Give the time of one message: its latency, then its bytes one after the other.

        Parameters
        ----------
        nbytes : float
            Length of the message in bytes.

        Returns
        -------
        float
            Seconds.
        """
        return self.latency + nbytes / self.bandwidth


# Bandwidths are the published ones, in one direction. What arrives is less: NCCL's own model takes
# 12 GB/s for PCIe 3 x16, 20 GB/s for each 25 GB/s NVLink (src/graph/topo.h).
# Latencies are typical values, and the same hardware has others with other software. Except for
# TCP they are those with which NCCL's model charges a step of a ring between two GPUs' memories,
# protocol Simple (hwLat in src/graph/tuning.cc): 3.4, 5.7 and 14 microseconds.
_PCI_SIG = 'PCI-SIG, {} GT/s on each of 16 lanes, encoding not taken off; latency: NCCL tuning.cc'
_NVIDIA = 'NVIDIA, {} links of a GPU together, 25 GB/s each and direction; latency: NCCL tuning.cc'
_NETWORK = 'line rate of {}; latency: NCCL tuning.cc'
_TCP = 'line rate of IEEE 802.3ae; latency: Hurwitz and Feng 2003, TCP between two PCs'

LINKS = {
    link.name: link
    for link in (
        Link('PCIe 3 x16', 5.7e-6, 16e9, _PCI_SIG.format(8)),
        Link('PCIe 4 x16', 5.7e-6, 32e9, _PCI_SIG.format(16)),
        Link('PCIe 5 x16', 5.7e-6, 64e9, _PCI_SIG.format(32)),
        Link('NVLink 2', 3.4e-6, 6 * 25e9, _NVIDIA.format('V100: the 6')),
        Link('NVLink 3', 3.4e-6, 12 * 25e9, _NVIDIA.format('A100: the 12')),
        Link('NVLink 4', 3.4e-6, 18 * 25e9, _NVIDIA.format('H100: the 18')),
        Link('10 Gb Ethernet', 20e-6, 10e9 / 8, _TCP),
        Link('25 Gb RoCE', 14e-6, 25e9 / 8, _NETWORK.format('25 Gb Ethernet, IEEE 802.3by')),
        Link('100 Gb InfiniBand', 14e-6, 100e9 / 8, _NETWORK.format('InfiniBand EDR x4')),
        Link('400 Gb InfiniBand', 14e-6, 400e9 / 8, _NETWORK.format('InfiniBand NDR x4')),
    )
}


def links_table():
    """Lay the published links out, one per row.

    Returns
    -------
    mgpu_helpers.display.Table

    Examples
    --------
    >>> links_table().rows[0][:3]
    ['PCIe 3 x16', '5.7 µs', '16 GB/s']
    """
    from ..display import Table

    rows = [
        (x.name, f'{x.latency * 1e6:.3g} µs', f'{x.bandwidth / 1e9:.4g} GB/s', x.source)
        for x in LINKS.values()
    ]
    return Table(rows, ['link', 'latency', 'bandwidth', 'source'])
