"""Train chapter 2's LeNet on Fashion-MNIST, in one worker or in many.

    python -m mgpu_helpers launch -n 2 -s 1 -- python cluster/train.py --epochs 3

Every worker walks through the same joint batches and computes on its own shard of each; the store
sums the gradients and updates the parameters, so that all workers have the same after every step.
"""

import argparse
import hashlib
import time

import mgpu_helpers as mgpu
from mgpu_helpers.gluon import autograd, evaluate_accuracy_gpus, lenet, mx, nd, prepare

loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument('--epochs', type=int, default=5, help='passes over the data')
    parser.add_argument('--batch-size', type=int, default=256, help='of all workers together')
    parser.add_argument('--lr', type=float, default=0.3, help='learning rate')
    parser.add_argument('--num-examples', type=int, help='only the first so many')
    parser.add_argument('--seed', type=int, default=0, help='of the start and of the order')
    kinds = ('dist_sync', 'dist_device_sync', 'dist_async')
    parser.add_argument('--kind', choices=kinds, default='dist_sync', help='of the store')
    options = parser.parse_args()
    try:
        for name in ('epochs', 'batch_size'):
            mgpu.checks.positive_int('--' + name.replace('_', '-'), getattr(options, name))
        mgpu.checks.positive_number('--lr', options.lr)
    except ValueError as error:
        parser.error(str(error))
    return options


def shard(X, rank, workers):
    """Give worker ``rank`` its part of a joint batch, even or not; it may be empty."""
    return X[len(X) * rank // workers : len(X) * (rank + 1) // workers]


def train_batch(net, trainer, X, y, store, device):
    """Take one step on a joint batch; give the sum of the losses of our own shard."""
    mine = [shard(a, store.rank, store.num_workers) for a in (X, y)]
    if len(mine[1]):
        X_mine, y_mine = (nd.array(a, ctx=device) for a in mine)
        with autograd.record():
            losses = loss_of(net(X_mine), y_mine)
            # The mean over the joint batch: the store adds up the workers' gradients, and
            # step(1) leaves them as they are.
            loss = losses.sum() / len(X)
        loss.backward()
    else:  # fewer examples than workers are left: we add nothing, but the others wait for us
        losses = nd.zeros(1, ctx=device)
        for param in net.collect_params().values():
            param.zero_grad()
    trainer.step(1)
    return losses.sum()


def main():
    options = parse()
    store = mx.kv.create(options.kind)  # first: the others are waiting
    device = mgpu.try_gpu()
    train_iter, test_iter = mgpu.data.load_arrays(
        'fashion-mnist', options.batch_size, options.num_examples, seed=options.seed
    )
    net = lenet()
    prepare(net, [device], options.seed)
    net(nd.zeros((1, 1, 28, 28), ctx=device))  # the parameters get their shapes
    trainer = mx.gluon.Trainer(
        net.collect_params(), 'sgd', {'learning_rate': options.lr}, kvstore=store
    )
    for epoch in range(1, options.epochs + 1):
        start, total = time.time(), nd.zeros(1, ctx=device)
        for X, y in train_iter:
            total += train_batch(net, trainer, X, y, store, device)
        loss = total.asscalar() / train_iter.num_examples
        seconds = time.time() - start
        if store.rank == 0:
            batches = ((nd.array(X), nd.array(y)) for X, y in test_iter)
            print(
                f'epoch {epoch}: {seconds:.1f} sec, loss of shard 0: '
                f'{loss * store.num_workers:.4f}, test acc: '
                f'{evaluate_accuracy_gpus(net, batches):.4f}'
            )
    digest = hashlib.sha256()
    for param in net.collect_params().values():
        digest.update(param.data(device).asnumpy().tobytes())
    print(f'rank {store.rank} of {store.num_workers}: parameters {digest.hexdigest()}')


if __name__ == '__main__':
    main()
