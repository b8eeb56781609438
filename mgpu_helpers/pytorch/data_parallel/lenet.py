"""Chapter 1's network and batches in PyTorch: LeNet with the same initial values, Fashion-MNIST."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ... import arguments, data

Tensors: TypeAlias = Sequence[Tensor]

loss = nn.CrossEntropyLoss(reduction='none')


def init_params(
    scale: float = 0.01, seed: int | None = None, dtype: str = 'float32'
) -> list[Tensor]:
    """Draw LeNet's initial parameters ``[W1, b1, ..., W4, b4]``, 129,068 values, on the CPU.

    ``scale`` is the standard deviation of the weights; biases start at 0. The same seed gives the
    same numbers as chapter 1's function, because both draw with NumPy.
    """
    arguments.check(scale=scale, seed=seed, dtype=dtype)
    rng = np.random.default_rng(seed)
    shapes = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]
    values = [rng.normal(0, scale, s) if len(s) > 1 else np.zeros(s) for s in shapes]
    return [torch.from_numpy(v.astype(dtype)) for v in values]


def build_lenet(params: Tensors) -> nn.Sequential:
    """Build chapter 1's LeNet from PyTorch's layers, with a copy of ``params`` as its values."""
    arguments.check(params=params)
    net = nn.Sequential(
        nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    net.to(params[0].dtype)
    with torch.no_grad():
        for p, start in zip(net.parameters(), params):
            p.copy_(start.T if start.dim() == 2 else start)  # Linear keeps its weight transposed
    return net


class TensorIter:
    """``data.Batches`` as tensors on the CPU: ``X`` (n, 1, 28, 28), ``y`` (n,) int64."""

    def __init__(self, batches: data.Batches) -> None:
        self.batches, self.num_examples = batches, batches.num_examples

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for X, y in self.batches:
            yield torch.from_numpy(X), torch.from_numpy(y).long()


def load_data_fashion_mnist(
    batch_size: int,
    num_examples: int | None = None,
    seed: int | None = None,
    dtype: str = 'float32',
) -> tuple[TensorIter, TensorIter]:
    """Load Fashion-MNIST: iterators over training and test batches, values in [0, 1].

    ``num_examples`` limits the training set to its first examples, of 60,000. The same seed gives
    the same order as in chapter 1. The last batch may be smaller.
    """
    train, test = data.load_arrays('fashion-mnist', batch_size, num_examples, seed, dtype)
    return TensorIter(train), TensorIter(test)
