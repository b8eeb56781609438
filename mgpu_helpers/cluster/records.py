"""What a worker of a cluster measures in training, an entry per epoch."""

from dataclasses import dataclass, field

from ..history import History


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

    computing: list = field(default_factory=list)
    waiting: list = field(default_factory=list)
    sent: list = field(default_factory=list)
    received: list = field(default_factory=list)

    def add(self, seconds, train_loss, test_acc, computing, waiting, traffic):
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
