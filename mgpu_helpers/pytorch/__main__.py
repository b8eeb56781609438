"""Train LeNet with DistributedDataParallel from the shell.

``torchrun --nproc-per-node=2 -m mgpu_helpers.pytorch --lr 0.2`` on any number of machines, or
``python -m mgpu_helpers.pytorch --num-gpus 2`` on this one.
"""

from __future__ import annotations

import argparse
import os

from .. import checks
from . import process_group, train_ddp, train_rank


def main() -> None:
    parser = argparse.ArgumentParser(
        prog='python -m mgpu_helpers.pytorch',
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument('--num-gpus', type=int, default=2, help='processes (without torchrun)')
    parser.add_argument('--batch-size', type=int, default=256, help='over all devices together')
    parser.add_argument('--lr', type=float, default=0.2, help='learning rate')
    parser.add_argument('--num-epochs', type=int, default=4, help='passes over the data')
    parser.add_argument('--num-examples', type=int, help='only so many training examples')
    parser.add_argument('--seed', type=int, help='the same run again')
    options = vars(parser.parse_args())
    try:
        for name in ('num_gpus', 'batch_size', 'num_epochs'):
            checks.positive_int('--' + name.replace('_', '-'), options[name])
        checks.positive_number('--lr', options['lr'])
    except ValueError as error:
        parser.error(str(error))
    num_gpus = options.pop('num_gpus')
    if 'RANK' in os.environ:  # started by torchrun, once for each device
        with process_group():
            train_rank(**options)
    else:
        train_ddp(num_gpus, **options)


if __name__ == '__main__':
    main()
