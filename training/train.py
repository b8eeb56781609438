"""Train LeNet on Fashion-MNIST, on one device. train_ddp.py does the same on several."""

import argparse
import gzip
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

DATA = Path(os.environ.get('MXNET_HOME') or '~/.mxnet').expanduser() / 'datasets/fashion-mnist'


def parse():
    parser = argparse.ArgumentParser(description=__doc__, usage='%(prog)s [options]')
    add = parser.add_argument
    add('--epochs', type=int, default=4, help='passes over the data (4)')
    add('--batch-size', type=int, default=256, help='examples in a step (256)')
    add('--lr', type=float, default=0.2, help='learning rate (0.2)')
    add('--momentum', type=float, default=0.0, help='of SGD (0)')
    add('--seed', type=int, default=0, help='of the first weights and of the order (0)')
    add('--limit', type=int, metavar='N', help='train on the first N examples')
    add('--data', type=Path, default=DATA, metavar='DIR', help=f'its four .gz files ({DATA})')
    return parser.parse_args()


def read(folder, part, limit=None):
    """Read examples: images (1, 28, 28), as bytes, and labels."""
    images = gzip.open(folder / f'{part}-images-idx3-ubyte.gz').read()
    labels = gzip.open(folder / f'{part}-labels-idx1-ubyte.gz').read()
    images = torch.tensor(np.frombuffer(images, np.uint8, offset=16).reshape(-1, 1, 28, 28))
    labels = torch.tensor(np.frombuffer(labels, np.uint8, offset=8)).long()
    return TensorDataset(images[:limit], labels[:limit])


def loader(examples, batches):
    return DataLoader(examples, sampler=batches, batch_size=None)


def build(seed):
    net = nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    rng = np.random.default_rng(seed)  # NumPy's numbers: the start of the other chapters
    for p in net.parameters():
        W = p.data.t() if p.dim() == 2 else p.data
        W.copy_(torch.from_numpy(rng.normal(0, 0.01, W.shape)) if p.dim() > 1 else torch.zeros(1))
    return net


def evaluate(net, tests, device):
    right = 0
    net.eval()
    with torch.no_grad():
        for X, y in loader(tests, np.array_split(range(len(tests)), 10)):
            right += (net(X.to(device) / 255).argmax(1) == y.to(device)).sum()
    net.train()
    return right.item() / len(tests)


def main():
    args = parse()
    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    examples, tests = read(args.data, 'train', args.limit), read(args.data, 't10k')
    net = build(args.seed).to(device)
    optimizer = torch.optim.SGD(net.parameters(), args.lr, args.momentum)
    for epoch in range(args.epochs):
        total = 0
        order = np.random.default_rng([args.seed, epoch]).permutation(len(examples))
        steps = np.split(order, range(args.batch_size, len(order), args.batch_size))
        for X, y in loader(examples, steps):
            X, y = X.to(device) / 255, y.to(device)
            optimizer.zero_grad()
            loss = cross_entropy(net(X), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        loss, accuracy = total / len(examples), evaluate(net, tests, device)
        print(f'epoch {epoch + 1}, train loss: {loss:.6f}, test acc: {accuracy:.4f}')


if __name__ == '__main__':
    main()
