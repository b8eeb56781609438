"""How long a training step takes, and how that grows with the devices: formulas, no simulation.

A step is a forward pass, a backward pass that takes twice as long, and the part of the allreduce
that does not fit behind the backward pass. Devices are equally fast, the gradient is ready bit by
bit, and nothing else gets in the way: what this predicts is the best that a machine can do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import checks
from .inputs import check_counts, check_model
from .machines import MACHINES, communication_seconds
from .models import MODELS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..display import Table
    from .machines import Machine
    from .models import Model

POWERS = tuple(2**i for i in range(11))  # 1, 2, 4, ... 1,024


@dataclass(frozen=True)
class Step:
    """Where the seconds of one training step go.

    Parameters
    ----------
    devices : int
        How many train.
    batch : int
        Examples on each.
    overhead, forward, backward, communication : float
        Seconds of each part.
    exposed : float
        Seconds of communication after the backward pass has ended.

    Examples
    --------
    >>> Step(2, 64, 0.0, 1.0, 2.0, communication=2.5, exposed=0.5).seconds
    3.5
    """

    devices: int
    batch: int
    overhead: float
    forward: float
    backward: float
    communication: float
    exposed: float

    @property
    def seconds(self) -> float:
        """float: of the whole step."""
        return self.overhead + self.forward + self.backward + self.exposed


def step(
    model: Model,
    batch: int,
    devices: int,
    machine: Machine,
    algorithm: str = 'ring',
    overlap: bool = True,
    messages: int = 1,
) -> Step:
    """Work out a training step in its parts.

    Parameters
    ----------
    model : Model
        What is trained.
    batch : int
        Examples on each device.
    devices : int
        How many there are.
    machine : Machine
        What they can do.
    algorithm : str
        A name in ``ALGORITHMS``, or ``'hierarchical'``.
    overlap : bool
        Whether gradients travel during the backward pass, or only after it.
    messages : int
        How many allreduces the gradient is sent in.

    Returns
    -------
    Step

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> found = step(MODELS['ResNet-50'], 96, 64, MACHINES['p3.16xlarge'])
    >>> f'{found.backward * 1000:.0f} ms backward, {found.communication * 1000:.0f} ms allreduce'
    '167 ms backward, 66 ms allreduce'
    """
    check_model(model)
    checks.positive_int('batch', batch)
    communication = communication_seconds(devices, model.nbytes, machine, algorithm, messages)
    forward = batch * model.flops / machine.flops
    backward = 2 * forward  # gradients of the inputs and of the parameters, each like a forward
    hidden = min(communication, backward) if overlap else 0.0
    exposed = communication - hidden
    return Step(devices, batch, machine.overhead, forward, backward, communication, exposed)


def step_seconds(
    model: Model,
    batch: int,
    devices: int,
    machine: Machine,
    algorithm: str = 'ring',
    overlap: bool = True,
    messages: int = 1,
) -> float:
    """Work out how long a training step takes; arguments and errors as ``step``.

    Returns
    -------
    float
        Seconds.

    Examples
    --------
    >>> f'{step_seconds(MODELS["ResNet-50"], 96, 64, MACHINES["p3.16xlarge"]) * 1000:.0f} ms'
    '250 ms'
    """
    return step(model, batch, devices, machine, algorithm, overlap, messages).seconds


def hiding_batch(model: Model, devices: int, machine: Machine, algorithm: str = 'ring') -> int:
    """Find the smallest batch per device behind whose backward pass the allreduce fits.

    Parameters
    ----------
    model : Model
        What is trained.
    devices : int
        How many there are.
    machine : Machine
        What they can do.
    algorithm : str
        A name in ``ALGORITHMS``, or ``'hierarchical'``.

    Returns
    -------
    int
        Examples on each device.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Notes
    -----
    By hand: b examples keep the backward pass busy for 2 b F / R seconds (F operations forward for
    one, R a second); the allreduce takes C; so b is C R / 2 F, rounded up.

    Examples
    --------
    >>> hiding_batch(MODELS['ResNet-50'], 64, MACHINES['p3.16xlarge'])
    39
    """
    check_model(model)
    communication = communication_seconds(devices, model.nbytes, machine, algorithm)
    backward_of_one = 2 * model.flops / machine.flops
    return max(1, math.ceil(communication / backward_of_one))


def plot_hiding(
    model: Model,
    devices: int,
    machine: Machine,
    algorithm: str = 'ring',
    batches: Sequence[int] = POWERS,
) -> Figure:
    """Draw backward pass, allreduce and efficiency over the batch on each device.

    The line where the backward pass becomes the longer one is ``hiding_batch``.

    Parameters
    ----------
    model : Model
        What is trained.
    devices : int
        How many there are.
    machine : Machine
        What they can do.
    algorithm : str
        A name in ``ALGORITHMS``, or ``'hierarchical'``.
    batches : list of int
        Examples on each device.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> len(plot_hiding(MODELS['ResNet-50'], 64, MACHINES['p3.16xlarge']).axes)
    2
    """
    from .drawings import draw_hiding

    check_counts('batches', batches)
    batch = hiding_batch(model, devices, machine, algorithm)
    shown = sorted({*batches, batch})  # with the corner of the curve
    steps = [step(model, b, devices, machine, algorithm) for b in shown]
    alone = [step(model, b, 1, machine) for b in shown]
    return draw_hiding(steps, alone, batch)


@dataclass(frozen=True)
class Scaling:
    """A training step on more and more devices.

    Parameters
    ----------
    label : str
        What it is called in a picture.
    steps : list of Step
        One for each number of devices.
    examples : list of int
        In each step, on all devices together.
    single : float
        Examples a second on one device: what speed-up is measured against.

    Examples
    --------
    >>> weak = weak_scaling(MODELS['VGG-16'], 32, [1, 8, 64], MACHINES['p3.16xlarge'])
    >>> [f'{share:.0%}' for share in weak.efficiency]
    ['100%', '100%', '69%']
    """

    label: str
    steps: list[Step]
    examples: list[int]
    single: float

    @property
    def devices(self) -> list[int]:
        """list of int: how many, entry by entry."""
        return [step.devices for step in self.steps]

    @property
    def seconds(self) -> list[float]:
        """list of float: time of a step."""
        return [step.seconds for step in self.steps]

    @property
    def throughput(self) -> list[float]:
        """list of float: examples a second."""
        return [n / s for n, s in zip(self.examples, self.seconds, strict=True)]

    @property
    def speedup(self) -> list[float]:
        """list of float: how many times the throughput of one device."""
        return [rate / self.single for rate in self.throughput]

    @property
    def efficiency(self) -> list[float]:
        """list of float: speed-up per device, 1 at best."""
        return [s / k for s, k in zip(self.speedup, self.devices, strict=True)]

    def table(self) -> Table:
        """Lay the numbers of devices out, one per row.

        Returns
        -------
        mgpu_helpers.display.Table
        """
        from .drawings import scaling_table

        return scaling_table(self)

    def plot(self, *others: Scaling) -> Figure:
        """Draw speed-up and efficiency over the devices, this one's and others'.

        Parameters
        ----------
        *others : Scaling
            To compare with.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from .drawings import draw_scaling

        return draw_scaling((self, *others))


def weak_scaling(
    model: Model,
    batch_per_device: int,
    device_counts: Sequence[int],
    machine: Machine,
    label: str | None = None,
    **options: Any,
) -> Scaling:
    """Let the batch grow with the devices: each always has ``batch_per_device`` examples.

    Parameters
    ----------
    model : Model
        What is trained.
    batch_per_device : int
        Examples on each device.
    device_counts : list of int
        Numbers of devices.
    machine : Machine
        What they can do.
    label : str, optional
        What it is called in a picture.
    **options
        ``algorithm``, ``overlap``, ``messages``, as in ``step``.

    Returns
    -------
    Scaling

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> weak_scaling(MODELS['ResNet-50'], 32, [1, 8], MACHINES['p3.16xlarge']).examples
    [32, 256]
    """
    check_counts('device_counts', device_counts)
    checks.positive_int('batch_per_device', batch_per_device)
    label = label or f'{getattr(model, "name", "")}, {batch_per_device:,} per device'
    return _scaling(
        label,
        model,
        [batch_per_device * k for k in device_counts],
        device_counts,
        machine,
        batch_per_device,
        options,
    )


def strong_scaling(
    model: Model,
    global_batch: int,
    device_counts: Sequence[int],
    machine: Machine,
    label: str | None = None,
    **options: Any,
) -> Scaling:
    """Share one batch among more and more devices: the work stays, the part of each shrinks.

    Parameters
    ----------
    model : Model
        What is trained.
    global_batch : int
        Examples in a step, on all devices together. Where they cannot be shared out evenly, the
        largest part sets the time.
    device_counts : list of int
        Numbers of devices, none larger than the batch.
    machine : Machine
        What they can do.
    label : str, optional
        What it is called in a picture.
    **options
        ``algorithm``, ``overlap``, ``messages``, as in ``step``.

    Returns
    -------
    Scaling
        Measured against one device with the whole batch, whether it would fit there or not.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, or if devices would go without an example.

    Examples
    --------
    >>> strong = strong_scaling(MODELS['ResNet-50'], 8192, [1, 8], MACHINES['p3.16xlarge'])
    >>> [step.batch for step in strong.steps]
    [8192, 1024]
    """
    check_counts('device_counts', device_counts)
    checks.positive_int('global_batch', global_batch)
    if max(device_counts) > global_batch:
        raise ValueError(
            f'a batch of {global_batch:,} cannot be shared by {max(device_counts):,} devices: some '
            'would get no example; use a larger batch or fewer devices'
        )
    label = label or f'{getattr(model, "name", "")}, {global_batch:,} on all devices together'
    return _scaling(
        label,
        model,
        [global_batch for _ in device_counts],
        device_counts,
        machine,
        global_batch,
        options,
    )


def _scaling(
    label: str,
    model: Model,
    examples: list[int],
    device_counts: Sequence[int],
    machine: Machine,
    batch_of_one: int,
    options: dict[str, Any],
) -> Scaling:
    """Work out a step for each number of devices, and one device as what to compare with."""
    steps = [
        step(model, math.ceil(n / k), k, machine, **options)
        for n, k in zip(examples, device_counts, strict=True)
    ]
    single = batch_of_one / step(model, batch_of_one, 1, machine, **options).seconds
    return Scaling(label, steps, examples, single)


def many_devices() -> tuple[Scaling, Scaling]:
    """Work out the ready example: what happens at 8, 64 and 1,024 devices?

    ResNet-50 on p3.16xlarge, servers of eight V100, hierarchical allreduce: the batch of 8,192 with
    which Goyal et al. 2017 trained (strong), and 32 examples on each device (weak).

    Returns
    -------
    tuple of two Scaling
        Strong and weak, 1 to 1,024 devices.

    Examples
    --------
    >>> strong, weak = many_devices()
    >>> [f'{strong.speedup[strong.devices.index(k)]:.0f}' for k in (8, 64, 1024)]
    ['8', '64', '278']
    """
    machine, options = MACHINES['p3.16xlarge'], {'algorithm': 'hierarchical'}
    model = MODELS['ResNet-50']
    return (
        strong_scaling(model, 8192, POWERS, machine, 'strong: 8,192 in all', **options),
        weak_scaling(model, 32, POWERS, machine, 'weak: 32 per device', **options),
    )


def eight_slower_than_one() -> Scaling:
    """Work out the ready example: why are 8 GPUs slower than 1?

    Chapter 1's LeNet and batch of 256, on computers with one V100 and 10 Gb Ethernet: the whole
    step is shorter than the allreduce.

    Returns
    -------
    Scaling
        1, 2, 4 and 8 devices.

    Examples
    --------
    >>> eight_slower_than_one().speedup[-1] < 1
    True
    """
    machine = MACHINES['V100 on 10 Gb Ethernet']
    return strong_scaling(MODELS['LeNet'], 256, [1, 2, 4, 8], machine, 'LeNet, batch 256')
