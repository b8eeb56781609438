"""Sizes of networks: parameters, floating-point operations and activations, layer by layer."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import arguments
from .links import PUBLISHED, Library

FLOAT32 = 4  # bytes of a value


@dataclass(frozen=True)
class Layer:
    """One layer with parameters, including a normalization layer after it."""

    name: str
    parameters: int  # values that training changes, whose gradients are summed over the devices
    # Operations of the forward pass for one example: a multiplication and the addition after it are
    # two. Excludes norms, activation functions and pooling.
    flops: float
    # Values per example that the backward pass needs again: the layer's output, and the
    # normalization's, counted once each.
    activations: int = 0


@dataclass(frozen=True)
class Model:
    """A network in the cost model: its layers, in forward order."""

    name: str
    layers: Sequence[Layer]
    value_bytes: int = FLOAT32  # of a parameter, a gradient, an activation

    def __post_init__(self) -> None:
        object.__setattr__(self, 'layers', tuple(self.layers))  # makes it hashable
        arguments.positive_int(f'parameters of {self.name!r}', self.parameters)
        arguments.positive_number(f'flops of {self.name!r}', self.flops)

    @property
    def parameters(self) -> int:
        """Return the number of trainable values."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def nbytes(self) -> int:
        """Return the size of the gradient, or of the parameters, in bytes."""
        return self.value_bytes * self.parameters

    @property
    def flops(self) -> float:
        """Return the number of operations in the forward pass for one example."""
        return sum(layer.flops for layer in self.layers)

    @property
    def activations(self) -> int:
        """Return the number of values per example that must be kept for the backward pass."""
        return sum(layer.activations for layer in self.layers)


def _convolutional() -> dict[str, list[Layer]]:
    """Read the layers of networks.csv; a dense layer is listed as a convolution on one pixel."""
    networks: dict[str, list[Layer]] = {}
    with open(Path(__file__).with_name('networks.csv'), encoding='utf8', newline='') as file:
        for network, layer, *numbers in list(csv.reader(file))[1:]:
            side, inputs, outputs, height, width, biases, norm = map(int, numbers)
            weights = height * width * inputs * outputs
            parameters = weights + (biases + 2 * norm) * outputs  # a norm has a scale and a shift
            kept = side**2 * outputs * (norm + (1 if weights else 0))
            described = Layer(layer, parameters, 2 * weights * side**2, kept)
            networks.setdefault(network, []).append(described)
    return networks


def _llama(blocks: int, width: int, hidden: int, keys: int) -> list[Layer]:
    """Return Llama 3.1's layers; an example is a sequence of 8,192 tokens, causally masked.

    For each token a block stores the inputs to its matrix products and norms: 6 vectors of
    ``width``, the keys and values, and 4 of ``hidden`` (gate, its SiLU, up, their product). There
    is no dropout and, as in FlashAttention, no attention matrix.
    """
    vocabulary, tokens = 128_256, 8192
    embedding = Layer('embedding', vocabulary * width, 0, tokens * width)
    weights = 2 * width**2 + 2 * width * keys + 3 * width * hidden
    flops = 2 * tokens * (weights + tokens * width)
    kept = tokens * (6 * width + 2 * keys + 4 * hidden)
    layers = [Layer(f'block{i}', weights + 2 * width, flops, kept) for i in range(1, blocks + 1)]
    products = 2 * tokens * vocabulary * width
    head = Layer('head', (vocabulary + 1) * width, products, tokens * vocabulary)
    return [embedding, *layers, head]


# LeNet is that of chapter 1, ResNet-18 that of chapter 2. ResNet-50 and ResNet-101: He and others
# 2015, version 1.5; VGG-16: Simonyan and Zisserman 2014, both for 224x224 pixels. Inception V3:
# Szegedy and others 2015, for 299x299, without its auxiliary output. Llama is in bfloat16.
MODELS = Library(
    'model',
    (
        *(Model(name, layers) for name, layers in _convolutional().items()),
        *(Model(name, _llama(**sizes), 2) for name, sizes in PUBLISHED['llama'].items()),
    ),
)
