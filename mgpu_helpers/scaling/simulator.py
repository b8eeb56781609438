"""Training steps played through event by event: what each device does, and what it waits for.

The formulas of ``curves`` need every device to be as fast as any other. Here each computes layer by
layer in its own time, gradients travel in buckets, and what happens next is whatever comes first.
"""

import heapq
import os
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .. import checks
from ..display import Table
from ..lanes import Span, Timeline
from .drawings import milliseconds
from .inputs import check_machine
from .machines import Machine, communication_seconds
from .messages import rounds, travel
from .models import FLOAT32

DRAWN = 16  # devices up to which a timeline is kept
PLAYED = 64  # devices up to which messages can be simulated one by one
BYTES, STEP_BYTES = 240, 48  # of a device: tracemalloc found 168 for one step, 456 for ten


class Work(NamedTuple):
    """What one layer asks of a device in one step.

    Parameters
    ----------
    name : str
        What it is called in a picture.
    gradient_bytes : float
        Bytes of its gradient; 0 for a layer without parameters.
    forward, backward : float
        Seconds of computing.
    """

    name: str
    gradient_bytes: float
    forward: float
    backward: float


@dataclass(frozen=True)
class Simulation:
    """What a simulation found.

    Parameters
    ----------
    title : str
        What was simulated.
    devices, batch : int
        How many devices, and how many examples each takes in a step.
    seconds : float
        Of one step, from forward pass to update; the mean over all steps.
    alone : float
        Seconds of a step on one device that waits for nobody.
    exposed : float
        Seconds of a step in which the last device's backward pass is done and the network is not.
    waiting : array of float
        For each device, the share of the time in which it does not compute, 0 to 1.
    """

    title: str
    devices: int
    batch: int
    seconds: float
    alone: float
    exposed: float
    waiting: np.ndarray = field(repr=False)
    _spans: list | None = field(repr=False, default=None)

    @property
    def throughput(self):
        """float: examples a second, of all devices together."""
        return self.devices * self.batch / self.seconds

    @property
    def efficiency(self):
        """float: throughput of a device as a share of that of one device alone, 0 to 1."""
        return self.alone / self.seconds

    @property
    def timeline(self):
        """Timeline: what each device and the network did when; for up to 16 devices."""
        if self._spans is None:
            raise ValueError(
                f'{self.devices} devices are too many for a picture: simulate {DRAWN} or fewer'
            )
        return Timeline(self._spans, self.title)

    def table(self, *others):
        """Lay the main figures out, a row for this simulation and each of the others.

        Returns
        -------
        Table
        """
        rows = [
            (
                s.title,
                s.devices,
                milliseconds(s.seconds),
                milliseconds(s.exposed),
                f'{s.waiting.mean():.0%}',
                f'{s.throughput:,.0f}',
                f'{s.efficiency:.0%}',
            )
            for s in (self, *others)
        ]
        return Table(
            rows,
            ['simulated', 'devices', 'step', 'exposed', 'waiting', 'examples/sec', 'efficiency'],
        )


def simulate(
    model,
    batch,
    devices,
    machine,
    algorithm='ring',
    bucket_bytes=25 * 2**20,
    overlap=True,
    spread=0.0,
    update=0.0,
    steps=1,
    seed=0,
    messages=False,
    title=None,
):
    """Simulate data-parallel training steps.

    Parameters
    ----------
    model : Model or list of (name, gradient_bytes, forward_seconds, backward_seconds)
        The network, layers in forward order. Given as a list, with its times for this batch.
    batch : int
        Examples on each device.
    devices : int
        How many there are.
    machine : Machine or Link
        What a device computes and what it is connected with; for a list, a link is enough.
    algorithm : str
        A name in ``ALGORITHMS``, or ``'hierarchical'`` on a machine.
    bucket_bytes : float or None
        Gradients travel together once there are at least so many bytes; None: each layer's alone.
        A layer is never cut.
    overlap : bool
        Whether a bucket may travel during the backward pass (else after that of all devices).
    spread : float
        Standard deviation of a device's computing time, as a share of its mean.
    update : float
        Seconds that the optimizer takes once a device has all sums.
    steps : int
        How many to simulate.
    seed : int
        Of the random times: the same seed gives the same.
    messages : bool
        Whether each collective is played through message by message, up to 64 devices.
    title : str, optional
        What it is called in a table or picture.

    Returns
    -------
    Simulation

    Raises
    ------
    TypeError, ValueError
        If an argument is not of its kind or range, if there is no such algorithm, or if memory does
        not suffice for so many devices. Before anything is simulated.

    Notes
    -----
    All computing of a device in a step takes longer or shorter by one factor, drawn anew for every
    device and step from a log-normal distribution with mean 1 and standard deviation ``spread``.
    The network carries one collective at a time, in the order of the backward pass; one starts when
    all devices have the gradients of its bucket. A device updates when it has all sums, and goes on
    to the next step at once.

    Examples
    --------
    >>> from mgpu_helpers.scaling import Link
    >>> layers = [('first', 100, 1.0, 2.0), ('second', 300, 1.0, 2.0)]
    >>> link = Link('example', latency=0.5, bandwidth=100.0)
    >>> found = simulate(layers, 10, 2, link, bucket_bytes=None)
    >>> found.seconds, found.exposed, found.throughput
    (10.0, 4.0, 2.0)
    """
    work, overhead = _work(model, batch, machine)
    _check(devices, bucket_bytes, spread, steps, update)
    network = _Network(machine, devices, algorithm, messages)
    _fits_in_memory(devices, steps)
    run = _Run(*_phases(work, overhead, update, bucket_bytes), network, steps)
    run.factors = _factors(spread, steps, devices, seed).tolist()
    run.go(overlap)
    return run.result(title or _title(model, algorithm, overlap), batch)


class _Run:
    """The event queue and what its events change.

    An event is (time, device, phase): the device has finished that phase of its step. For the
    network, device -1, the phase is the bucket that has been summed.
    """

    def __init__(self, phases, closes, sizes, network, steps):
        self.phases, self.seconds = phases, [seconds for _, _, seconds in phases]
        self.closes, self.sizes = closes, sizes
        self.network, self.devices, self.steps = network, network.devices, steps
        self.costs = [network.seconds(size) for size in sizes]
        self.missing = [self.devices] * len(sizes)  # devices that have not filled a bucket yet
        self.computing = self.devices  # whose backward pass is not done
        self.waiting, self.travels, self.summed = deque(), False, 0
        self.step = [0] * self.devices
        self.queue, self.exposed, self.end = [], 0.0, 0.0
        self.spans = [] if self.devices <= DRAWN else None

    def go(self, overlap):
        """Work the queue off: take the earliest event, do what it makes possible, until none is."""
        self.overlap = overlap
        for device in range(self.devices):
            self.begin(0.0, device, 0, heapq.heappush)
        last_backward = len(self.phases) - 2
        while self.queue:
            now, device, phase = self.queue[0]
            if device < 0:
                heapq.heappop(self.queue)
                self.on_summed(now, phase)
                continue
            if phase < last_backward:
                self.begin(now, device, phase + 1)
            else:
                heapq.heappop(self.queue)
            if phase > last_backward:
                self.on_updated(now, device)
            elif phase in self.closes:
                self.on_filled(now, self.closes[phase])
            if phase == last_backward:
                self.on_computed(now)

    def begin(self, now, device, phase, queue=heapq.heapreplace):
        """Let a device begin a phase; its end is an event, in place of the one at hand."""
        end = now + self.seconds[phase] * self.factors[self.step[device]][device]
        queue(self.queue, (end, device, phase))
        if self.spans is not None and end > now:
            kind, name, _ = self.phases[phase]
            self.spans.append(Span(f'device {device}', kind, name, now, end))

    def on_filled(self, now, bucket):
        """A device has all gradients of a bucket; when the last one has, it may travel."""
        self.missing[bucket] -= 1
        if not self.missing[bucket]:
            self.missing[bucket] = self.devices
            self.waiting.append(bucket)
            self.send(now)

    def on_computed(self, now):
        """A device's backward pass is done."""
        self.computing -= 1
        if not self.computing:
            self.computed = now
            self.send(now)
            self.update(now)

    def on_summed(self, now, bucket):
        """The network has brought the sums of a bucket to all devices."""
        self.travels = False
        self.summed += 1
        self.send(now)
        self.update(now)

    def on_updated(self, now, device):
        """A device has finished a step."""
        self.step[device] += 1
        self.end = max(self.end, now)
        if self.step[device] < self.steps:
            self.begin(now, device, 0, heapq.heappush)

    def send(self, now):
        """Let the next bucket travel, if the network is free and it may."""
        if self.waiting and not self.travels and (self.overlap or not self.computing):
            self.travels = True
            bucket = self.waiting.popleft()
            end = now + self.costs[bucket]
            heapq.heappush(self.queue, (end, -1, bucket))
            if self.spans is not None and self.devices > 1:
                name, size = f'bucket {bucket + 1}', self.sizes[bucket]
                self.spans += self.network.spans(name, size, now, end)

    def update(self, now):
        """Let all devices update, if everything is computed and summed."""
        if self.computing or self.summed < len(self.sizes):
            return
        self.exposed += now - self.computed
        self.computing, self.summed = self.devices, 0
        for device in range(self.devices):
            self.begin(now, device, len(self.phases) - 1, heapq.heappush)

    def result(self, title, batch):
        alone = sum(self.seconds)
        waiting = 1 - alone * np.sum(self.factors, axis=0) / self.end
        return Simulation(
            title,
            self.devices,
            batch,
            self.end / self.steps,
            alone,
            self.exposed / self.steps,
            waiting.clip(0),  # a device that never waits may miss 0 by a rounding
            self.spans,
        )


class _Network:
    """What a collective takes: one event, or all its messages."""

    def __init__(self, machine, devices, algorithm, messages):
        self.machine = machine if hasattr(machine, 'flops') else Machine('links', 1.0, machine)
        self.devices, self.algorithm, self.messages = devices, algorithm, messages
        if messages and devices > PLAYED:
            raise ValueError(
                f'{devices} devices are too many to simulate message by message: use at most '
                f'{PLAYED}, or messages=False'
            )
        self.seconds(1)  # says so if this algorithm cannot run here

    def seconds(self, nbytes):
        if self.messages:
            return max((m.end for m in self.travel(nbytes)), default=0.0)
        return communication_seconds(self.devices, nbytes, self.machine, self.algorithm)

    def travel(self, nbytes):
        """Play one collective through, message by message."""
        turns = rounds(self.algorithm, self.devices, round(nbytes))
        within = self.devices <= (self.machine.devices_per_server or self.devices)
        return travel(turns, self.devices, self.machine.link if within else self.machine.network)

    def spans(self, name, nbytes, start, end):
        """Draw a collective: a bar on a lane of its own, or one for each device that sends."""
        if not self.messages:
            return [Span('network', 'allreduce', name, start, end)]
        return [
            Span(f'device {m.source} sends', 'allreduce', name, start + m.start, start + m.end)
            for m in self.travel(nbytes)
        ]


def _title(model, algorithm, overlap):
    """Name a simulation by what it simulates."""
    named = [getattr(model, 'name', 'layers'), algorithm, *([] if overlap else ['no overlap'])]
    return ', '.join(named)


def _work(model, batch, machine):
    """Give the layers as Work, and the seconds of a step that do not depend on them."""
    checks.positive_int('batch', batch)
    if hasattr(model, 'layers'):
        check_machine(machine)
        seconds = [batch * layer.flops / machine.flops for layer in model.layers]
        return [
            Work(layer.name, FLOAT32 * layer.parameters, t, 2 * t)
            for layer, t in zip(model.layers, seconds)
        ], machine.overhead
    if not hasattr(model, '__iter__'):
        raise TypeError(f'model must be a Model or a list of layers, not {checks.shown(model)}')
    work = [_one(layer) for layer in model]
    if not sum(layer.forward + layer.backward for layer in work):
        raise ValueError('no layer takes any time: give at least one with seconds above 0')
    return work, getattr(machine, 'overhead', 0.0)


def _one(layer):
    """Check one layer of a list."""
    if not isinstance(layer, (list, tuple)) or len(layer) != 4:
        raise TypeError(
            'a layer must be (name, gradient_bytes, forward_seconds, backward_seconds), not '
            f'{checks.shown(layer)}'
        )
    work = Work(*layer)
    for name in Work._fields[1:]:
        checks.not_negative(f'{name} of layer {work.name!r}', getattr(work, name))
    return work


def _check(devices, bucket_bytes, spread, steps, update):
    checks.positive_int('devices', devices)
    checks.positive_int('steps', steps)
    checks.not_negative('spread', spread)
    checks.not_negative('update in seconds', update)
    if bucket_bytes is not None:
        checks.positive_number('bucket_bytes', bucket_bytes)


def _phases(work, overhead, update, bucket_bytes):
    """List what a device does in a step, and fill buckets in the order of the backward pass.

    Gives (kind, name, seconds) of each phase, which phases close which bucket, and the buckets'
    bytes. The last phase is the update, the one before it the end of the backward pass.
    """
    phases = [('compute', 'overhead', overhead)] if overhead else []
    phases.append(('forward', 'forward', sum(layer.forward for layer in work)))
    closes, sizes, size = {}, [], 0
    left = sum(
        layer.gradient_bytes > 0 for layer in work
    )  # layers whose gradient has no bucket yet
    for layer in reversed(work):
        size, left = size + layer.gradient_bytes, left - (layer.gradient_bytes > 0)
        if size and (size >= (bucket_bytes or 0) or not left):
            closes[len(phases)] = len(sizes)
            sizes.append(size)
            size = 0
        phases.append(('backward', layer.name, layer.backward))
    return [*phases, ('update', 'update', update)], closes, sizes


def _factors(spread, steps, devices, seed):
    """Draw by what each device's computing in each step is longer; the mean is 1."""
    if not spread:
        return np.ones((steps, devices))
    variance = np.log1p(spread**2)  # of the logarithm
    rng = np.random.default_rng(seed)
    return rng.lognormal(-variance / 2, np.sqrt(variance), (steps, devices))


def _fits_in_memory(devices, steps):
    """Raise if so many devices would not fit into what is free now."""
    each, free = BYTES + STEP_BYTES * steps, free_memory()
    if free is not None and devices * each > free:
        raise ValueError(
            f'{devices:,} simulated devices need {devices * each / 1e9:,.1f} GB, and '
            f'{free / 1e9:,.1f} GB are free: at most {free // each:,} fit; simulate fewer devices '
            'or steps'
        )


def free_memory():
    """Give the bytes of memory that no process uses; None where the system does not say.

    Examples
    --------
    >>> free = free_memory()
    >>> free is None or free > 0
    True
    """
    try:
        return os.sysconf('SC_AVPHYS_PAGES') * os.sysconf('SC_PAGE_SIZE')
    except (AttributeError, ValueError):  # Windows has no sysconf, macOS not this value
        return None
