"""Train chapter 2's LeNet on Fashion-MNIST, in one worker or in many.

    python -m mgpu_helpers launch -n 2 -s 1 -- python training/train_cluster.py --epochs 3

Chapter 4's training as a script, to copy and fill with your own network and data.
"""

import argparse
import hashlib
import sys

import mgpu_helpers as mgpu
from mgpu_helpers import cluster
from mgpu_helpers.gluon import evaluate_accuracy_gpus


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument('--epochs', type=int, default=5, help='passes over the data')
    parser.add_argument('--batch-size', type=int, default=256, help='of all workers together')
    parser.add_argument('--lr', type=float, default=0.3, help='learning rate')
    parser.add_argument('--num-examples', type=int, help='train on the first N only')
    parser.add_argument('--seed', type=int, default=0, help='of the first weights and the order')
    kinds = ('dist_sync', 'dist_device_sync', 'dist_async')
    parser.add_argument('--kind', choices=kinds, default='dist_sync', help='of the store')
    parser.add_argument('--devices', type=int, default=1, help='of each worker')
    parser.add_argument(
        '--checkpoints',
        metavar='FOLDER',
        help='save after each epoch, and go on from there; all workers must be able to read it',
    )
    options = parser.parse_args()
    try:
        for name in ('epochs', 'batch_size', 'devices'):
            mgpu.arguments.positive_int('--' + name.replace('_', '-'), getattr(options, name))
        mgpu.arguments.positive_number('--lr', options.lr)
        mgpu.arguments.whole_number('--seed', options.seed)
    except ValueError as error:
        parser.error(str(error))
    return options


def main():
    options = parse()
    train_iter, test_iter = mgpu.load_data_fashion_mnist(
        options.batch_size, options.num_examples, options.seed
    )
    store, devices, net, trainer = cluster.connect(
        options.kind, options.devices, options.lr, options.seed
    )
    settings = {
        name: getattr(options, name) for name in ('batch_size', 'num_examples', 'lr', 'seed')
    }
    try:
        done = cluster.resume(net, train_iter, store, options.checkpoints, **settings)
    except ValueError as error:  # in every worker: their checkpoints differ
        sys.exit(f'error: {error}')
    for epoch in range(done + 1, options.epochs + 1):
        computing, waiting = cluster.train_epoch(train_iter, net, devices, trainer, store)
        # In every worker, else the others would wait for rank 0.
        test_acc = evaluate_accuracy_gpus(net, test_iter)
        if store.rank == 0:
            if options.checkpoints:
                params = cluster.parameters(net)
                cluster.save_checkpoint(options.checkpoints, epoch, params, **settings)
            print(
                f'epoch {epoch}: {computing + waiting:.1f} sec, of which rank 0 computed '
                f'{computing:.1f} sec and waited {waiting:.1f} sec, test acc: {test_acc:.4f}'
            )
    digest = hashlib.sha256()
    for values in cluster.parameters(net).values():
        digest.update(values.tobytes())
    print(f'rank {store.rank} of {store.num_workers}: parameters {digest.hexdigest()}')


if __name__ == '__main__':
    main()
