"""The event queue of the simulator: who does what next, and when the network is free."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..lanes import Span
from .machines import Machine, communication_seconds
from .messages import rounds, travel

if TYPE_CHECKING:
    from .links import Link
    from .messages import Message

    Phase = tuple[str, str, float]  # kind, name, seconds

DRAWN = 16  # devices up to which a timeline is kept
PLAYED = 64  # devices up to which messages can be simulated one by one


class Run:
    """The event queue and what its events change.

    An event is (time, device, phase): the device has finished that phase of its step. For the
    network, device -1, the phase is the bucket that has been summed.
    """

    def __init__(
        self,
        phases: list[Phase],
        closes: dict[int, int],
        sizes: list[float],
        network: Network,
        steps: int,
        factors: list[list[float]],
    ) -> None:
        self.phases, self.seconds = phases, [seconds for _, _, seconds in phases]
        self.closes, self.sizes = closes, sizes
        self.network, self.devices, self.steps = network, network.devices, steps
        self.costs = [network.seconds(size) for size in sizes]
        self.missing = [self.devices] * len(sizes)  # devices that have not filled a bucket yet
        self.computing = self.devices  # whose backward pass is not done
        self.waiting: deque[int] = deque()
        self.travels, self.summed = False, 0
        self.step = [0] * self.devices
        self.factors = factors  # of each step and device: by what its computing is longer
        self.queue: list[tuple[float, int, int]] = []
        self.exposed, self.end = 0.0, 0.0
        self.spans: list[Span] | None = [] if self.devices <= DRAWN else None

    def go(self, overlap: bool) -> None:
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

    def begin(
        self, now: float, device: int, phase: int, queue: Callable[..., object] = heapq.heapreplace
    ) -> None:
        """Let a device begin a phase; its end is an event, in place of the one at hand."""
        end = now + self.seconds[phase] * self.factors[self.step[device]][device]
        queue(self.queue, (end, device, phase))
        if self.spans is not None and end > now:
            kind, name, _ = self.phases[phase]
            self.spans.append(Span(f'device {device}', kind, name, now, end))

    def on_filled(self, now: float, bucket: int) -> None:
        """A device has all gradients of a bucket; when the last one has, it may travel."""
        self.missing[bucket] -= 1
        if not self.missing[bucket]:
            self.missing[bucket] = self.devices
            self.waiting.append(bucket)
            self.send(now)

    def on_computed(self, now: float) -> None:
        """A device's backward pass is done."""
        self.computing -= 1
        if not self.computing:
            self.computed = now
            self.send(now)
            self.update(now)

    def on_summed(self, now: float, bucket: int) -> None:
        """The network has brought the sums of a bucket to all devices."""
        self.travels = False
        self.summed += 1
        self.send(now)
        self.update(now)

    def on_updated(self, now: float, device: int) -> None:
        """A device has finished a step."""
        self.step[device] += 1
        self.end = max(self.end, now)
        if self.step[device] < self.steps:
            self.begin(now, device, 0, heapq.heappush)

    def send(self, now: float) -> None:
        """Let the next bucket travel, if the network is free and it may."""
        if self.waiting and not self.travels and (self.overlap or not self.computing):
            self.travels = True
            bucket = self.waiting.popleft()
            end = now + self.costs[bucket]
            heapq.heappush(self.queue, (end, -1, bucket))
            if self.spans is not None and self.devices > 1:
                name, size = f'bucket {bucket + 1}', self.sizes[bucket]
                self.spans += self.network.spans(name, size, now, end)

    def update(self, now: float) -> None:
        """Let all devices update, if everything is computed and summed."""
        if self.computing or self.summed < len(self.sizes):
            return
        self.exposed += now - self.computed
        self.computing, self.summed = self.devices, 0
        for device in range(self.devices):
            self.begin(now, device, len(self.phases) - 1, heapq.heappush)


class Network:
    """What a collective takes: one event, or all its messages."""

    def __init__(
        self, machine: Machine | Link, devices: int, algorithm: str, messages: bool
    ) -> None:
        self.machine = machine if isinstance(machine, Machine) else Machine('links', 1.0, machine)
        self.devices, self.algorithm, self.messages = devices, algorithm, messages
        if messages and devices > PLAYED:
            raise ValueError(
                f'{devices} devices are too many to simulate message by message: use at most '
                f'{PLAYED}, or messages=False'
            )
        self.seconds(1)  # says so if this algorithm cannot run here

    def seconds(self, nbytes: float) -> float:
        if self.messages:
            return max((m.end for m in self.travel(nbytes)), default=0.0)
        return communication_seconds(self.devices, nbytes, self.machine, self.algorithm)

    def travel(self, nbytes: float) -> list[Message]:
        """Play one collective through, message by message."""
        turns = rounds(self.algorithm, self.devices, round(nbytes))
        several = self.devices > (self.machine.devices_per_server or self.devices)
        link = self.machine.network if several and self.machine.network else self.machine.link
        return travel(turns, self.devices, link)

    def spans(self, name: str, nbytes: float, start: float, end: float) -> list[Span]:
        """Draw a collective: a bar on a lane of its own, or one for each device that sends."""
        if not self.messages:
            return [Span('network', 'allreduce', name, start, end)]
        return [
            Span(f'device {m.source} sends', 'allreduce', name, start + m.start, start + m.end)
            for m in self.travel(nbytes)
        ]
