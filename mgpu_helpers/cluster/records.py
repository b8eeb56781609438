"""What a worker of a cluster measures in training, an entry per epoch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..history import History

if TYPE_CHECKING:
    from .traffic import Traffic


@dataclass
class WorkerHistory(History):
    """One worker's training run, an entry per epoch.

    Parameters
    ----------
    label, num_examples
        See ``History``; the examples are those of the joint batches.

    Attributes
    ----------
    computing, waiting : list of float
        Seconds of each epoch in which this worker computed gradients, and in which it had pushed
        them and waited for the new parameters.
    sent, received : list of int
        Bytes of each epoch over this worker's own TCP connections.

    Examples
    --------
    >>> from mgpu_helpers.cluster import Traffic
    >>> run = WorkerHistory('worker 0', num_examples=6000)
    >>> run.add(2.0, 1.5, 0.7, computing=1.6, waiting=0.3, traffic=Traffic(5000, 5000))
    >>> run.waiting
    [0.3]
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
        """Append one epoch.

        Parameters
        ----------
        seconds, train_loss, test_acc, computing, waiting : float
            See the attributes.
        traffic : Traffic
            The difference of two ``socket_bytes()``.
        """
        self.computing.append(computing)
        self.waiting.append(waiting)
        self.sent.append(traffic.sent)
        self.received.append(traffic.received)
        super().add(seconds, train_loss, test_acc)
