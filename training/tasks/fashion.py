"""LeNet on Fashion-MNIST. Its names are those that tasks/__init__.py lists."""

import gzip
import os
import sys
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tasks import above_0, some

DATA = Path(os.environ.get('MXNET_HOME') or '~/.mxnet').expanduser() / 'datasets/fashion-mnist'
SCORE, collate = 'test acc', tuple  # an Images gives a whole batch at once


def options(add):
    add('--data', type=Path, default=DATA, metavar='DIR', help='read its four .gz files')
    add('--limit', type=some, metavar='N', help='take the first N examples of each file')
    add('--lr', type=above_0, default=0.2, help='learning rate (%(default)s)')
    add('--adamw', action='store_true', help='use AdamW instead of SGD')


class Images(torch.utils.data.TensorDataset):
    __getitems__ = torch.utils.data.TensorDataset.__getitem__  # DataLoader's way to ask for a batch


def read(args, training):
    """Return images (n, 1, 28, 28), as uint8, and labels (n,)."""
    found, part = [], 'train' if training else 't10k'
    for name, head in (('images-idx3', 16), ('labels-idx1', 8)):
        file = args.data / f'{part}-{name}-ubyte.gz'
        try:
            found.append(np.frombuffer(gzip.open(file).read(), np.uint8, offset=head))
        except (OSError, EOFError, ValueError, zlib.error) as error:
            sys.exit(f'error: {file} cannot be read: {error}')
    images, labels = found
    if len(images) != 784 * len(labels) or labels.max() > 9:
        sys.exit(f'error: {args.data}: {len(images)} bytes of images, {len(labels)} labels')
    images = torch.tensor(images.reshape(-1, 1, 28, 28)[: args.limit])
    return Images(images, torch.tensor(labels[: args.limit]).long())


def build(args):
    torch.manual_seed(args.seed)
    return nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def optimizer_of(net, args):
    return (torch.optim.AdamW if args.adamw else torch.optim.SGD)(net.parameters(), args.lr)


def prepare(batch, args, training):
    return batch[0].to(args.real) / 255, batch[1]


def forward(model, batch):
    return model(batch[0])


def count_of(batch):
    return len(batch[1])


def loss_of(output, batch):
    return nn.functional.cross_entropy(output, batch[1], reduction='sum')


def score_of(output, batch):
    return (output.argmax(1) == batch[1]).sum()
