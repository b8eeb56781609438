"""Train LeNet on Fashion-MNIST, on one device. train_ddp.py does the same on several."""

import argparse
import gzip
import os
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DATA = Path(os.environ.get('MXNET_HOME') or '~/.mxnet').expanduser() / 'datasets/fashion-mnist'


def read(folder, part, limit=None):
    """Read examples: images (1, 28, 28), as bytes, and labels."""
    images = gzip.open(folder / f'{part}-images-idx3-ubyte.gz').read()
    labels = gzip.open(folder / f'{part}-labels-idx1-ubyte.gz').read()
    images = torch.tensor(np.frombuffer(images, np.uint8, offset=16).reshape(-1, 1, 28, 28))
    labels = torch.tensor(np.frombuffer(labels, np.uint8, offset=8)).long()
    return TensorDataset(images[:limit], labels[:limit])


def build(seed):
    net = nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    rng = np.random.default_rng(seed)  # NumPy's, so that all chapters start from the same weights
    for p in net.parameters():
        W = p.data.t() if p.dim() == 2 else p.data
        W.copy_(torch.from_numpy(rng.normal(0, 0.01, W.shape)) if p.dim() > 1 else torch.zeros(1))
    return net


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--epochs', type=int, default=4)
    parser.add_argument('--batch-size', type=int, default=256)
    parser.add_argument('--lr', type=float, default=0.2)
    parser.add_argument('--adamw', action='store_true', help='instead of SGD')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--limit', type=int, help='train on the first N examples')
    parser.add_argument('--data', type=Path, default=DATA, help='the folder of its four .gz files')
    args = parser.parse_args()

    device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
    examples, tests = read(args.data, 'train', args.limit), read(args.data, 't10k')
    net = build(args.seed).to(device)
    kind = torch.optim.AdamW if args.adamw else torch.optim.SGD
    optimizer = kind(net.parameters(), args.lr, weight_decay=0)
    for epoch in range(args.epochs):
        total = right = 0
        order = np.random.default_rng([args.seed, epoch]).permutation(len(examples))
        steps = np.split(order, range(args.batch_size, len(order), args.batch_size))
        net.train()
        for X, y in DataLoader(examples, sampler=steps, batch_size=None):
            X, y = X.to(device) / 255, y.to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(X), y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        net.eval()
        with torch.no_grad():
            for X, y in DataLoader(tests, 256):
                right += (net(X.to(device) / 255).argmax(1) == y.to(device)).sum().item()
        loss, accuracy = total / len(examples), right / len(tests)
        print(f'epoch {epoch + 1}, train loss: {loss:.6f}, test acc: {accuracy:.4f}')


if __name__ == '__main__':
    main()
