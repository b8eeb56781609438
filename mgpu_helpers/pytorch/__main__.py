"""LeNet with DistributedDataParallel from the shell."""

from __future__ import annotations

import os
from typing import Any

import click

from . import process_group, train_rank


@click.command(context_settings={'show_default': True})
@click.option(
    '--batch-size', type=click.IntRange(1), default=256, help='Over all devices together.'
)
@click.option('--lr', type=click.FloatRange(0, min_open=True), default=0.2, help='Learning rate.')
@click.option('--num-epochs', type=click.IntRange(1), default=4, help='Passes over the data.')
@click.option('--num-examples', type=click.IntRange(1), help='Only so many training examples.')
@click.option('--seed', type=click.IntRange(0), help='The same run again.')
def main(**options: Any) -> None:
    """Train LeNet with DistributedDataParallel, on any number of machines:

    torchrun --standalone --nproc-per-node=2 -m mgpu_helpers.pytorch --lr 0.2
    """
    if 'RANK' not in os.environ:
        raise click.UsageError(
            'no rank: start it by torchrun --standalone --nproc-per-node=2 -m mgpu_helpers.pytorch'
        )
    with process_group():
        train_rank(**options)


if __name__ == '__main__':
    main(prog_name='python -m mgpu_helpers.pytorch')
