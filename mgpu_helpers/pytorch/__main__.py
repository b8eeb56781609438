"""Train LeNet with DistributedDataParallel from the shell.

``torchrun --nproc-per-node=2 -m mgpu_helpers.pytorch --lr 0.2`` on any number of machines, or
``python -m mgpu_helpers.pytorch --num-gpus 2`` on this one.
"""

import argparse
import os

from . import process_group, train_ddp, train_rank


def main():
    parser = argparse.ArgumentParser(prog='python -m mgpu_helpers.pytorch', description=__doc__)
    parser.add_argument('--num-gpus', type=int, default=2, help='processes (without torchrun)')
    parser.add_argument('--batch-size', type=int, default=256, help='over all devices together')
    parser.add_argument('--lr', type=float, default=0.2)
    parser.add_argument('--num-epochs', type=int, default=4)
    parser.add_argument('--num-examples', type=int, help='only so many training examples')
    parser.add_argument('--seed', type=int)
    options = vars(parser.parse_args())
    num_gpus = options.pop('num_gpus')
    if 'RANK' in os.environ:  # started by torchrun, once for each device
        with process_group():
            train_rank(**options)
    else:
        train_ddp(num_gpus, **options)


if __name__ == '__main__':
    main()
