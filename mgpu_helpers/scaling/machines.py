"""Machines: what a device computes in a second, and the links that an allreduce goes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import checks
from .costs import ALGORITHMS, hierarchical
from .inputs import Library, check_machine, check_message, check_model
from .links import LINKS, Link
from .models import MODELS

if TYPE_CHECKING:
    from .models import Model

CROWDED = ('butterfly', 'sharded')  # in them all devices of a server talk to other servers at once


@dataclass(frozen=True)
class Machine:
    """What the devices of a machine can do, and how they are connected.

    Parameters
    ----------
    name : str
        What it is called.
    flops : float
        Floating-point operations a second that one device keeps up in training. What it is sold
        with is more; see ``sustained_flops``.
    link : Link
        Between the devices of a server.
    memory : float, optional
        Bytes of one device.
    overhead : float
        Seconds a step that do not depend on the batch: starting kernels, Python.
    devices_per_server : int, optional
        How many share a server and its network link; without it, ``link`` joins all devices.
    network : Link, optional
        The one link of each server to the others.
    source : str
        Where the figures come from.

    Raises
    ------
    TypeError, ValueError
        If a figure is out of range, or only one of ``devices_per_server`` and ``network`` is given.

    Examples
    --------
    >>> machine = Machine('four servers', 9e12, LINKS['NVLink 2'], 16e9,
    ...                   devices_per_server=8, network=LINKS['25 Gb RoCE'])
    >>> [(n, link.name) for n, link in machine.levels(32)]
    [(8, 'NVLink 2'), (4, '25 Gb RoCE')]
    """

    name: str
    flops: float
    link: Link
    memory: float | None = None
    overhead: float = 0.0
    devices_per_server: int | None = None
    network: Link | None = None
    source: str = ''

    def __post_init__(self) -> None:
        checks.positive_number('flops per second', self.flops)
        check_message(1, 1, self.link)
        if self.memory is not None:
            checks.positive_number('memory in bytes', self.memory)
        checks.not_negative('overhead in seconds', self.overhead)
        if (self.devices_per_server is None) != (self.network is None):
            raise ValueError(
                'give both, devices_per_server and network, for a machine of several servers, or '
                'neither'
            )
        if self.network is not None:
            check_message(self.devices_per_server, 1, self.network)

    def levels(self, devices: int) -> list[tuple[int, Link]]:
        """Give the levels that so many devices make up, as ``hierarchical`` takes them.

        Raises
        ------
        ValueError
            If the last server would not be full.
        """
        n = self.devices_per_server or devices
        if self.network is None or devices <= n:
            return [(devices, self.link)]
        if devices % n:
            raise ValueError(
                f'{devices} devices do not fill servers of {n}: use a multiple of {n}, or '
                "algorithm='ring'"
            )
        return [(n, self.link), (devices // n, self.network)]


def sustained_flops(model: Model, examples_per_second: float) -> float:
    """Work out how many operations a second a device keeps up, from its measured speed.

    Parameters
    ----------
    model : Model
        What it trained.
    examples_per_second : float
        On that one device, in training.

    Returns
    -------
    float
        Operations a second: three forward passes' worth for each example.

    Raises
    ------
    TypeError, ValueError
        If the speed is not a number above 0.

    Examples
    --------
    >>> f'{sustained_flops(MODELS["ResNet-50"], 384) / 1e12:.1f} TFLOP/s'
    '9.4 TFLOP/s'
    """
    check_model(model)
    checks.positive_number('examples_per_second', examples_per_second)
    return 3 * model.flops * examples_per_second


def communication_seconds(
    devices: int, nbytes: float, machine: Machine, algorithm: str = 'ring', messages: int = 1
) -> float:
    """Work out the time of an allreduce on a machine.

    Parameters
    ----------
    devices : int
        How many take part.
    nbytes : float
        Bytes of the gradient on each device.
    machine : Machine
        Its links.
    algorithm : str
        A name in ``ALGORITHMS``, or ``'hierarchical'``.
    messages : int
        How many allreduces of equal size the gradient is sent in, one after the other.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or an algorithm does not fit the machine.

    Notes
    -----
    Through several servers a flat algorithm runs at the speed of the network. ``butterfly`` and
    ``sharded`` are refused there: all devices of a server would share its link at once.

    Examples
    --------
    >>> machine = MACHINES['p3.16xlarge']
    >>> f'{communication_seconds(64, 102e6, machine) * 1000:.0f} ms'
    '66 ms'
    """
    check_machine(machine)
    check_message(devices, nbytes, machine.link)
    checks.positive_int('messages', messages)
    checks.one_of('algorithm', algorithm, (*ALGORITHMS, 'hierarchical'))
    several = devices > (machine.devices_per_server or devices)
    if several and algorithm in CROWDED:
        raise ValueError(
            f'{algorithm!r} is for one server, or for {machine.devices_per_server} devices at most '
            "here: use 'ring' or 'hierarchical' through several"
        )
    if algorithm == 'hierarchical':
        return messages * hierarchical(nbytes / messages, machine.levels(devices))
    slowest = machine.network if several and machine.network else machine.link
    return messages * ALGORITHMS[algorithm](devices, nbytes / messages, slowest)


# NVIDIA measured 384 images a second: ResNet-50, float32, batch 96, MXNet on one V100 of a DGX-1
# (DeepLearningExamples, MxNet/Classification/RN50v1.5). Other networks reach other speeds.
_V100 = sustained_flops(MODELS['ResNet-50'], 384)
MACHINES = Library(
    'machine',
    (
        Machine(
            'p3.16xlarge',
            _V100,
            LINKS['NVLink 2'],
            16e9,
            devices_per_server=8,
            network=LINKS['25 Gb RoCE'],
            source='AWS: 8 V100, NVLink 2, 25 Gb/s a server; 9.4 TFLOP/s from NVIDIA, 384 images/s',
        ),
        Machine(
            'V100 on 10 Gb Ethernet',
            _V100,
            LINKS['10 Gb Ethernet'],
            16e9,
            source='one V100 in each computer; 9.4 TFLOP/s from NVIDIA, 384 images/s',
        ),
    ),
)
