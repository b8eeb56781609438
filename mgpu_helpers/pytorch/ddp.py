"""The concise version: ``DistributedDataParallel``, one process for each device.

The same functions run in processes that ``launch`` starts, from a notebook or a script, and in
those that ``torchrun`` starts: ``torchrun --nproc-per-node=2 -m mgpu_helpers.pytorch``.
"""

import contextlib
import os
import socket
import tempfile
import time
import warnings

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .. import checks
from ..data import OfflineDataWarning, environment_for_children
from ..display import Line, progress
from ..history import History
from ..processes import run_workers
from .devices import num_gpus as count_gpus
from .scratch import init_params, load_data_fashion_mnist, loss


def build_lenet(params):
    """Build ``scratch.lenet`` from PyTorch's layers, with given start parameters.

    Parameters
    ----------
    params : list of torch.Tensor
        As ``init_params`` gives them.

    Returns
    -------
    torch.nn.Sequential
        On the CPU, of the type of ``params``; maps (n, 1, 28, 28) to (n, 10).

    Examples
    --------
    >>> build_lenet(init_params(seed=0))(torch.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10])
    """
    net = nn.Sequential(
        nn.Conv2d(1, 20, kernel_size=3), nn.ReLU(), nn.AvgPool2d(kernel_size=2, stride=2),
        nn.Conv2d(20, 50, kernel_size=5), nn.ReLU(), nn.AvgPool2d(kernel_size=2, stride=2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    net.to(params[0].dtype)
    with torch.no_grad():
        for p, start in zip(net.parameters(), params):
            p.copy_(start.T if start.dim() == 2 else start)  # Linear keeps its weight transposed
    return net


def lenet_params(net):
    """Give the parameters of ``build_lenet``'s network in the form of ``init_params``.

    Parameters
    ----------
    net : torch.nn.Module
        The network, or ``DistributedDataParallel`` around it.

    Returns
    -------
    list of torch.Tensor
        Copies on the CPU.

    Examples
    --------
    >>> params = init_params(seed=0)
    >>> torch.equal(lenet_params(build_lenet(params))[4], params[4])
    True
    """
    params = [p.detach().cpu() for p in net.parameters()]
    return [(p.T if p.dim() == 2 else p).clone() for p in params]


def this_device():
    """Tell the device of this process, one of those that ``launch`` or ``torchrun`` started.

    Returns
    -------
    torch.device
        ``cuda:i``, i being the process's number on its machine, if the machine has a usable GPU for
        each of them; else ``cpu``: the process, on one core, is the stand-in.

    Examples
    --------
    >>> this_device().type in ('cpu', 'cuda')
    True
    """
    on_this_machine = int(os.environ.get('LOCAL_WORLD_SIZE', 1))
    if count_gpus() >= on_this_machine:
        return torch.device('cuda', int(os.environ.get('LOCAL_RANK', 0)))
    return torch.device('cpu')


@contextlib.contextmanager
def process_group():
    """Join the other processes of this run, for the length of a ``with`` block.

    Rank and world size stand in the environment, where ``launch`` and ``torchrun`` put them;
    collectives use NCCL between GPUs and gloo between CPUs.

    Raises
    ------
    RuntimeError
        If this process was started by neither.

    Examples
    --------
    >>> with process_group():
    ...     pass
    Traceback (most recent call last):
    RuntimeError: no rank: start this process with launch(...) or torchrun
    """
    if 'RANK' not in os.environ:
        raise RuntimeError('no rank: start this process with launch(...) or torchrun')
    rank, size = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    # launch: a file through which the processes find each other, so that no port can be in use.
    # torchrun: the address and the port that it chose, MASTER_ADDR and MASTER_PORT.
    path = os.environ.get('MGPU_STORE')
    store = dist.FileStore(path, size) if path else None
    gpu = this_device().type == 'cuda'
    if gpu:
        torch.cuda.set_device(this_device())
    dist.init_process_group('nccl' if gpu else 'gloo', store=store, rank=rank, world_size=size)
    yield
    # Not after an error: the others would hear that this rank is gone before it has said why.
    dist.destroy_process_group()


def ddp_step(X, y, net, optimizer):
    """Train on this rank's shard of one batch; the other ranks do the same with theirs.

    Parameters
    ----------
    X : torch.Tensor, shape (n, 1, 28, 28)
        The joint batch, the same in every process. If there are more ranks than examples, some get
        an empty shard and add a gradient of 0.
    y : torch.Tensor of int64, shape (n,)
        Its labels.
    net : DistributedDataParallel
        This rank's replica.
    optimizer : torch.optim.Optimizer
        Of the parameters of ``net``.

    Returns
    -------
    torch.Tensor
        The losses of this rank's examples.

    Notes
    -----
    ``DistributedDataParallel`` sums gradients over the ranks and divides by their number. So that
    the result is the mean over the *examples*, shards uneven or not, the loss of a rank is its sum
    times the number of ranks over the size of the joint batch.

    Examples
    --------
    >>> def one_step():
    ...     net = DistributedDataParallel(build_lenet(init_params(seed=0)).to(this_device()))
    ...     optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    ...     return len(ddp_step(torch.zeros(5, 1, 28, 28), torch.zeros(5).long(), net, optimizer))
    >>> launch(one_step, 2)
    [3, 2]
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    X_rank = torch.tensor_split(X, size)[rank].to(this_device())
    y_rank = torch.tensor_split(y, size)[rank].to(this_device())
    l = loss(net(X_rank), y_rank)
    optimizer.zero_grad()
    (l.sum() * size / len(X)).backward()
    optimizer.step()
    return l.detach()


def evaluate_ddp(net, data_iter):
    """Compute the accuracy over all ranks, each classifying its shard of every batch.

    Parameters
    ----------
    net : DistributedDataParallel
        This rank's replica.
    data_iter : iterable
        Yields ``(X, y)``, the same in every process.

    Returns
    -------
    float
        0 to 1, the same in every process.

    Examples
    --------
    >>> def evaluate():
    ...     net = DistributedDataParallel(build_lenet(init_params(seed=0)).to(this_device()))
    ...     return evaluate_ddp(net, [(torch.zeros(3, 1, 28, 28), torch.full((3,), 11))])
    >>> launch(evaluate, 2)
    [0.0, 0.0]
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    counts = torch.zeros(2, dtype=torch.int64, device=this_device())  # right, seen
    with torch.no_grad():
        for X, y in data_iter:
            X_rank, y_rank = (torch.tensor_split(a, size)[rank].to(this_device()) for a in (X, y))
            counts[0] += (net.module(X_rank).argmax(dim=1) == y_rank).sum()
            counts[1] += len(y_rank)
    dist.all_reduce(counts)
    right, seen = counts.tolist()
    return right / seen


def train_rank(batch_size, lr, num_epochs=4, num_examples=None, seed=None, dtype='float32'):
    """Train LeNet in one of several processes; every rank calls this with the same arguments.

    Parameters
    ----------
    batch_size, lr, num_epochs, num_examples, seed, dtype
        As in ``train``. Without a seed, the ranks agree on one.

    Returns
    -------
    History
        The same losses and accuracies in every process.

    Examples
    --------
    >>> first, second = launch(train_rank, 2, 256, 0.2, num_epochs=1, num_examples=512)
    ... # doctest: +ELLIPSIS
    [rank 0] epoch 1, time: ... sec, test acc: 0...
    >>> first.train_loss == second.train_loss
    True
    """
    first, size = dist.get_rank() == 0, dist.get_world_size()
    seed = _agree_on(seed)
    train_iter, test_iter = _load_in_turn(batch_size, num_examples, seed, dtype)
    net = build_lenet(init_params(seed=seed, dtype=dtype)).to(this_device())
    net = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr)
    history = History(f'DDP, devices: {size}, batch: {batch_size}', train_iter.num_examples)
    for epoch in range(1, num_epochs + 1):
        start, total = time.time(), 0
        bar = progress(train_iter, f'epoch {epoch}/{num_epochs}')
        with bar if first else contextlib.nullcontext(train_iter) as batches:
            for X, y in batches:
                total += ddp_step(X, y, net, optimizer).double().sum()
        dist.all_reduce(total)
        seconds, train_loss = time.time() - start, total.item() / train_iter.num_examples
        history.add(seconds, train_loss, evaluate_ddp(net, test_iter))
        if first:
            acc = history.test_acc[-1]
            print(f'epoch {epoch}, time: {seconds:.1f} sec, test acc: {acc:.2f}')
    return history


def _agree_on(seed):
    """Give every rank the first one's seed, a new one if that is None."""
    if seed is None:
        seed = int(np.random.default_rng().integers(2**32))
    agreed = [seed]
    dist.broadcast_object_list(agreed, src=0)
    return agreed[0]


def _load_in_turn(*args):
    """Load the data, the first rank before the others: if it must be fetched, then once."""
    if dist.get_rank() > 0:
        # What there is to say about the data, the first rank says.
        warnings.filterwarnings('ignore', category=OfflineDataWarning)
        dist.barrier()
    loaded = load_data_fashion_mnist(*args)
    if dist.get_rank() == 0:
        dist.barrier()
    return loaded


def _as_member(function, args, kwargs):
    with process_group():
        return function(*args, **kwargs)


def launch(function, num_gpus, *args, labels=True, timeout=None, **kwargs):
    """Call a function in ``num_gpus`` new processes, one for each device, joined into a group.

    Parameters
    ----------
    function : callable
        Also one that was defined in a notebook: it travels by value. In it, ``torch.distributed``
        is ready, and ``this_device()`` tells the device.
    num_gpus : int
        How many processes: the world size.
    *args, **kwargs
        For the function, the same in every process.
    labels : bool
        Whether lines that the processes print begin with ``[rank i]``.
    timeout : float, optional
        Seconds after which all are stopped.

    Returns
    -------
    list
        What the function returned, in order of rank.

    Raises
    ------
    TypeError, ValueError
        If ``num_gpus`` is not an integer of at least 1.
    ProcessFailed
        If a process raised or died; the others have been stopped. The message has its traceback.
    TimeoutError
        See ``timeout``.

    Notes
    -----
    What ``torchrun`` does on one machine. In addition, no process outlives this one, however it
    ends, and errors and results come back.

    Examples
    --------
    >>> launch(pow, 2, 2, 3)
    [8, 8]
    """
    checks.positive_int('num_gpus', num_gpus)
    if not callable(function):
        raise TypeError(f'function must be something to call, not {checks.shown(function)}')
    line = Line()

    def on_line(name, text):
        line.show('')
        print(f'[{name}] {text}' if labels else text)

    def on_message(name, kind, value):
        line.show(value)

    with tempfile.TemporaryDirectory(prefix='mgpu-') as folder:
        shared = {
            'WORLD_SIZE': str(num_gpus),
            'LOCAL_WORLD_SIZE': str(num_gpus),
            'MGPU_STORE': os.path.join(folder, 'store'),
        }
        shared |= environment_for_children() | _loopback()
        ranks = [str(rank) for rank in range(num_gpus)]
        return run_workers(
            _as_member,
            [((function, args, kwargs), {})] * num_gpus,
            [f'rank {rank}' for rank in ranks],
            [shared | {'RANK': rank, 'LOCAL_RANK': rank} for rank in ranks],
            on_line,
            on_message,
            timeout,
        )


def _loopback():
    """Keep gloo inside this machine: it would look up the machine's name, which may be unknown."""
    if 'GLOO_SOCKET_IFNAME' in os.environ or not hasattr(socket, 'if_nameindex'):
        return {}
    names = {name for _, name in socket.if_nameindex()}
    return next(({'GLOO_SOCKET_IFNAME': name} for name in ('lo', 'lo0') if name in names), {})


def train_ddp(
    num_gpus, batch_size, lr, num_epochs=4, num_examples=None, seed=None, dtype='float32'
):
    """Train LeNet on Fashion-MNIST with ``DistributedDataParallel``, one process for each device.

    Parameters
    ----------
    num_gpus : int
        How many processes; each has a GPU if there are that many, else a core.
    batch_size, lr, num_epochs, num_examples, seed, dtype
        As in ``train``, and with the same seed the same start, the same batches and, up to
        rounding, the same losses.

    Returns
    -------
    History
        Seconds, training loss and test accuracy of each epoch.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range; no process has been started then.
    ProcessFailed
        If a process raised or died; the others have been stopped.

    Examples
    --------
    >>> history = train_ddp(2, 256, 0.2, num_epochs=1, num_examples=512)  # doctest: +ELLIPSIS
    running on: ...:0 ...:1
    epoch 1, time: ... sec, test acc: 0...
    """
    checks.positive_int('num_gpus', num_gpus)
    checks.positive_int('num_epochs', num_epochs)
    checks.positive_number('lr', lr)
    # Checks the other arguments, and fetches the data before anybody waits for it.
    load_data_fashion_mnist(batch_size, num_examples, seed, dtype)
    kind = 'cuda' if count_gpus() >= num_gpus else 'cpu'
    print('running on:', *(f'{kind}:{i}' for i in range(num_gpus)))
    arguments = batch_size, lr, num_epochs, num_examples, seed, dtype
    return launch(train_rank, num_gpus, *arguments, labels=False)[0]
