"""What a worker of a cluster measures in training, an entry per epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..history import History

if TYPE_CHECKING:
    from .traffic import Traffic


@dataclass
class WorkerHistory(History):
    """One worker's training run, an entry per epoch; its examples are those of all workers.

    Beside the columns of ``History``: the seconds of each epoch in which this worker computed
    gradients, and in which it had pushed them and waited for the new parameters, and the bytes
    over its own TCP connections.
    """

    computing: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    def add(  # type: ignore[override]  # an epoch of a worker has more to it
        self,
        seconds: float,
        train_loss: float,
        test_acc: float,
        computing: float,
        waiting: float,
        traffic: Traffic,
    ) -> None:
        """Append one epoch; ``traffic`` is the difference of two ``socket_bytes()``."""
        self.computing.append(computing)
        self.waiting.append(waiting)
        self.sent.append(traffic.sent)
        self.received.append(traffic.received)
        super().add(seconds, train_loss, test_acc)
