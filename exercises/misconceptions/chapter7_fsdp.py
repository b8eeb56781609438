"""Wrong answers to exercise 7.7, with a part of the hint, and right ones that go another way."""

from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


def step(units=lambda net: [*net, net], loss='sum', factor=lambda n, k: k / n, cut=True):
    def sharded_step(net, X, y, dist):
        for unit in units(net):
            fully_shard(unit)
        rank, size = dist.get_rank(), dist.get_world_size()
        A, b = (t.tensor_split(size)[rank] if cut else t for t in (X, y))
        (F.cross_entropy(net(A), b, reduction=loss) * factor(len(X), size)).backward()

    return sharded_step


def without_backward(net, X, y, dist):
    for unit in [*net, net]:
        fully_shard(unit)
    net(X.tensor_split(dist.get_world_size())[dist.get_rank()])


def half_of_it(net, X, y, dist):
    for unit in [*net, net]:
        fully_shard(unit)
    own = slice(0, len(X) // dist.get_world_size())
    F.cross_entropy(net(X[own]), y[own]).backward()


def rest_dropped(net, X, y, dist):
    rank, each = dist.get_rank(), len(X) // dist.get_world_size()
    own = slice(rank * each, (rank + 1) * each)
    for unit in [*net, net]:
        fully_shard(unit)
    F.cross_entropy(net(X[own]), y[own]).backward()


def summed_by_fully_shard(net, X, y, dist):
    for unit in [*net, net]:
        fully_shard(unit).set_gradient_divide_factor(1.0)
    mine = slice(dist.get_rank(), None, dist.get_world_size())
    (F.cross_entropy(net(X[mine]), y[mine], reduction='sum') / len(y)).backward()


def layer_by_layer(net, X, y, dist):
    for module in reversed([m for m in net.modules() if isinstance(m, nn.Linear)]):
        fully_shard(module)
    fully_shard(net)
    size = dist.get_world_size()
    A, b = (t.chunk(size)[dist.get_rank()] for t in (X, y))
    log_p = net(A).log_softmax(-1).gather(1, b[:, None])
    log_p.sum().mul(-size / len(X)).backward()


def weighted_mean(net, X, y, dist):
    rank, size = dist.get_rank(), dist.get_world_size()
    for block in net.children():
        fully_shard(block, reshard_after_forward=True)
    fully_shard(net)
    mine = [i for i in range(len(X)) if i % size == rank]
    weight = len(mine) * size / len(X)
    loss = nn.CrossEntropyLoss()(net(X[mine]), y[mine])
    loss.backward(loss.new_tensor(weight))


WRONG = [
    ('7.7', 'one unit', step(lambda net: [net]), 'are whole at one time'),
    ('7.7', 'not cut', step(lambda net: []), 'are whole at one time'),
    ('7.7', 'blocks alone', step(lambda net: [*net]), 'then for net'),
    ('7.7', 'no backward pass', without_backward, 'without a gradient'),
    ('7.7', 'everyone everything', step(cut=False), 'each example belongs to one rank'),
    ('7.7', 'the rest dropped', rest_dropped, 'each example belongs to one rank'),
    ('7.7', 'all the first shard', half_of_it, 'what has each of them to give'),
    ('7.7', 'divided twice', step(factor=lambda n, k: 1 / n), 'and you by all examples'),
    ('7.7', 'a mean of means', step(loss='mean', factor=lambda n, k: 1), 'a short shard counts'),
    ('7.7', 'a plain sum', step(factor=lambda n, k: 1), 'who by the examples'),
    ('7.7', 'times the ranks', step(factor=lambda n, k: k), 'divide by the examples'),
]
RIGHT = [
    ('7.7', 'fully_shard sums, every k-th', summed_by_fully_shard),
    ('7.7', 'each layer, from the last one', layer_by_layer),
    ('7.7', 'a weighted mean', weighted_mean),
]
