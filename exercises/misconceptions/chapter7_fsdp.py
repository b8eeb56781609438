"""Wrong answers to exercise 7.7, each with a part of its hint, and other right answers."""

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


WRONG = [
    ('7.7', 'wrapped as one unit', step(lambda net: [net]), 'are unsharded at once'),
    ('7.7', 'the batch on every rank', step(cut=False), 'each example belongs to exactly one rank'),
    ('7.7', 'a mean of means', step(loss='mean', factor=lambda n, k: 1), 'a short shard counts'),
]
RIGHT = [
    ('7.7', 'fully_shard sums, every k-th', summed_by_fully_shard),
    ('7.7', 'each layer, from the last one', layer_by_layer),
]
