"""Train chapter 2's LeNet on Fashion-MNIST, in one worker or in many:

python -m mgpu_helpers launch -n 2 -s 1 -- python cluster/train.py --epochs 3

Every worker walks through the same joint batches and computes on its own shard of each; the store
sums the gradients and updates the parameters, so that all workers have the same after every step.
"""

import argparse
import hashlib
import time

import mgpu_helpers as mgpu
from mgpu_helpers.cluster import join, parameters, train_epoch

KINDS = ('dist_sync', 'dist_device_sync', 'dist_async', 'local')


def read_options():
    """Read the command line; errors name the option and end with status 2."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument('--epochs', type=int, default=5, help='passes over the data')
    parser.add_argument('--batch-size', type=int, default=256, help='of all workers together')
    parser.add_argument('--lr', type=float, default=0.3, help='learning rate')
    parser.add_argument('--num-examples', type=int, help='only the first so many')
    parser.add_argument('--num-gpus', type=int, default=1, help='devices of each worker')
    parser.add_argument('--seed', type=int, default=0, help='of the start and of the order')
    parser.add_argument('--kind', choices=KINDS, default='dist_sync', help='of the store')
    options = parser.parse_args()
    try:
        for name in ('epochs', 'batch_size', 'num_gpus'):
            mgpu.checks.positive_int('--' + name.replace('_', '-'), getattr(options, name))
        mgpu.checks.positive_number('--lr', options.lr)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    options = read_options()
    # All arguments are good and the data are here before the others are told that we are.
    train_iter, test_iter = mgpu.load_data_fashion_mnist(
        options.batch_size, options.num_examples, seed=options.seed
    )
    store, devices, net, trainer = join(options.kind, options.num_gpus, options.lr, options.seed)
    for epoch in range(1, options.epochs + 1):
        start = time.time()
        # The loss of each shard is divided by the length of the joint batch, and the trainer makes
        # step(1): a server does not learn of another length later.
        loss, computing, waiting = train_epoch(train_iter, net, devices, trainer, store)
        seconds = time.time() - start
        if store.rank == 0:
            accuracy = mgpu.gluon.evaluate_accuracy_gpus(net, test_iter)
            print(
                f'epoch {epoch}: {seconds:.1f} sec, {waiting / seconds:.0%} of it waiting, '
                f'loss of its shards {loss:.4f}, test acc {accuracy:.4f}'
            )
    digest = hashlib.sha256()
    for value in parameters(net).values():
        digest.update(value.tobytes())
    print(f'rank {store.rank} of {store.num_workers}: parameters {digest.hexdigest()}')


if __name__ == '__main__':
    main()
