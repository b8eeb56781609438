"""Sizes of networks: parameters, floating-point operations and activations, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import checks
from .links import Library

if TYPE_CHECKING:
    Kernel = int | tuple[int, int]  # a side, or height and width

FLOAT32 = 4  # bytes of a value


@dataclass(frozen=True)
class Layer:
    """One layer with parameters, together with the normalization behind it, if it has one."""

    name: str
    parameters: int  # values that training changes, whose gradients are summed over the devices
    # Of the forward pass, for one example; a multiplication and the addition that follows are two.
    # Norms, activation functions and pooling are not counted.
    flops: float
    # Values per example that the backward pass needs again: the layer's output, and the
    # normalization's, counted once each.
    activations: int = 0

    def __post_init__(self) -> None:
        checks.whole_number('parameters', self.parameters)
        checks.not_negative('flops', self.flops)
        checks.whole_number('activations', self.activations)


@dataclass(frozen=True)
class Model:
    """A network as the cost model sees it: its layers, in forward order."""

    name: str
    layers: Sequence[Layer]
    value_bytes: int = FLOAT32  # of a parameter, a gradient, an activation

    def __post_init__(self) -> None:
        object.__setattr__(self, 'layers', tuple(self.layers))  # frozen, and so hashable
        other = [layer for layer in self.layers if not isinstance(layer, Layer)]
        if other:
            raise TypeError(f'layers must be a list of Layer, not of {checks.shown(other[0])}')
        for what in ('parameters', 'flops'):
            if not getattr(self, what):
                raise ValueError(
                    f'{self.name!r} has no {what} in its layers: a model to train needs some'
                )

    @property
    def parameters(self) -> int:
        """Values that training changes."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def nbytes(self) -> int:
        """Bytes of the gradient, which are those of the parameters."""
        return self.value_bytes * self.parameters

    @property
    def flops(self) -> float:
        """Operations of the forward pass for one example."""
        return sum(layer.flops for layer in self.layers)

    @property
    def activations(self) -> int:
        """Values per example that the backward pass needs again."""
        return sum(layer.activations for layer in self.layers)


def dense(name: str, inputs: int, outputs: int) -> Layer:
    """Describe a fully connected layer with biases."""
    return Layer(name, (inputs + 1) * outputs, 2 * inputs * outputs, outputs)


def conv(
    name: str,
    side: int,
    inputs: int,
    outputs: int,
    kernel: Kernel = 1,
    norm: bool = True,
    bias: bool | None = None,
) -> Layer:
    """Describe a convolution whose output is ``side`` x ``side`` pixels of ``outputs`` channels.

    ``kernel`` is a side or (height, width); ``norm`` adds batch normalization, two values
    a channel. There are biases where there is no norm, unless ``bias`` says otherwise.
    """
    height, width = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    weights = height * width * inputs * outputs
    biases = outputs if bias or (bias is None and not norm) else 0
    kept = side**2 * outputs * (2 if norm else 1)
    return Layer(name, weights + biases + 2 * outputs * norm, 2 * weights * side**2, kept)


def _lenet() -> Iterator[Layer]:
    yield conv('conv1', 26, 1, 20, 3, norm=False)
    yield conv('conv2', 9, 20, 50, 5, norm=False)
    yield dense('fc1', 800, 128)
    yield dense('fc2', 128, 10)


def _resnet18_28() -> Iterator[Layer]:
    yield Layer('norm', 2, 0, 28**2)
    yield conv('conv', 26, 1, 64, 3, norm=False)
    inputs = 64
    for stage, (side, outputs) in enumerate(((12, 64), (6, 128), (3, 256)), 1):
        for block in (1, 2):
            name = f'stage{stage}.{block}'
            yield conv(f'{name}.conv1', side, inputs, outputs, 3, bias=True)
            yield conv(f'{name}.conv2', side, outputs, outputs, 3, bias=True)
            if inputs != outputs:
                yield conv(f'{name}.shortcut', side, inputs, outputs, norm=False)
            inputs = outputs
    yield dense('fc', 256, 10)


def _vgg16() -> Iterator[Layer]:
    stages = ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3))
    inputs = 3
    for stage, (side, outputs, count) in enumerate(stages, 1):
        for i in range(1, count + 1):
            yield conv(f'conv{stage}.{i}', side, inputs, outputs, 3, norm=False)
            inputs = outputs
    yield dense('fc1', 512 * 7 * 7, 4096)
    yield dense('fc2', 4096, 4096)
    yield dense('fc3', 4096, 1000)


def _resnet(*counts: int) -> Iterator[Layer]:
    yield conv('conv1', 112, 3, 64, 7)
    inputs, before = 64, 56
    for stage, (count, side) in enumerate(zip(counts, (56, 28, 14, 7), strict=True), 1):
        width = 32 * 2**stage
        for block in range(1, count + 1):
            name = f'stage{stage}.{block}'
            yield conv(f'{name}.conv1', before, inputs, width)
            yield conv(f'{name}.conv2', side, width, width, 3)  # this one halves, in version 1.5
            yield conv(f'{name}.conv3', side, width, 4 * width)
            if block == 1:
                yield conv(f'{name}.shortcut', side, inputs, 4 * width)
            inputs, before = 4 * width, side
    yield dense('fc', 2048, 1000)


def _branch(name: str, side: int, channels: int, *steps: tuple[Any, ...]) -> Iterator[Layer]:
    """Convolutions one after the other: each step is (kernel, channels) or (..., side)."""
    for i, (kernel, outputs, *other_side) in enumerate(steps, 1):
        yield conv(f'{name}.{i}', (other_side or [side])[0], channels, outputs, kernel)
        channels = outputs


def _inception_v3() -> Iterator[Layer]:
    row, column = (1, 7), (7, 1)
    yield from _branch('stem', 0, 3, (3, 32, 149), (3, 32, 147), (3, 64, 147), (1, 80, 73))
    yield conv('stem.5', 71, 80, 192, 3)
    for i, (inputs, pooled) in enumerate(((192, 32), (256, 64), (288, 64)), 1):
        yield from _branch(f'a{i}.1', 35, inputs, (1, 64))
        yield from _branch(f'a{i}.5', 35, inputs, (1, 48), (5, 64))
        yield from _branch(f'a{i}.3', 35, inputs, (1, 64), (3, 96), (3, 96))
        yield from _branch(f'a{i}.pool', 35, inputs, (1, pooled))
    yield from _branch('b.3', 17, 288, (3, 384))
    yield from _branch('b.33', 35, 288, (1, 64), (3, 96), (3, 96, 17))
    for i, c in enumerate((128, 160, 160, 192), 1):
        yield from _branch(f'c{i}.1', 17, 768, (1, 192))
        yield from _branch(f'c{i}.7', 17, 768, (1, c), (row, c), (column, 192))
        long = ((1, c), (column, c), (row, c), (column, c), (row, 192))
        yield from _branch(f'c{i}.77', 17, 768, *long)
        yield from _branch(f'c{i}.pool', 17, 768, (1, 192))
    yield from _branch('d.3', 17, 768, (1, 192), (3, 320, 8))
    yield from _branch('d.7', 17, 768, (1, 192), (row, 192), (column, 192), (3, 192, 8))
    for i, inputs in enumerate((1280, 2048), 1):
        yield from _branch(f'e{i}.1', 8, inputs, (1, 320))
        for kind, first in (('3', ((1, 384),)), ('33', ((1, 448), (3, 384)))):
            yield from _branch(f'e{i}.{kind}', 8, inputs, *first)
            yield conv(f'e{i}.{kind}.row', 8, 384, 384, (1, 3))
            yield conv(f'e{i}.{kind}.column', 8, 384, 384, (3, 1))
        yield from _branch(f'e{i}.pool', 8, inputs, (1, 192))
    yield dense('fc', 2048, 1000)


def _llama(blocks: int, width: int, hidden: int, keys: int) -> Iterator[Layer]:
    """Llama 3.1 (Meta 2024); an example is a text of 8,192 tokens; each sees those before it.

    A block keeps 17 values for each token and each of its ``width`` channels (Korthikanti and
    others 2022, without the matrix of attention).
    """
    words, tokens = 128_256, 8192
    yield Layer('embedding', words * width, 0, tokens * width)
    block = 2 * width**2 + 2 * width * keys + 3 * width * hidden
    for i in range(1, blocks + 1):
        flops = 2 * tokens * (block + tokens * width)
        yield Layer(f'block{i}', block + 2 * width, flops, 17 * tokens * width)
    yield Layer('head', (words + 1) * width, 2 * tokens * words * width, tokens * words)


MODELS = Library(
    'model',
    (
        Model('LeNet', tuple(_lenet())),  # chapter 1, 28x28
        Model('ResNet-18 (28x28)', tuple(_resnet18_28())),  # chapter 2
        # He et al. 2015, version 1.5, 224x224
        Model('ResNet-50', tuple(_resnet(3, 4, 6, 3))),
        Model('ResNet-101', tuple(_resnet(3, 4, 23, 3))),
        Model('Inception V3', tuple(_inception_v3())),  # Szegedy et al. 2015, no auxiliary, 299x299
        Model('VGG-16', tuple(_vgg16())),  # Simonyan and Zisserman 2014, 224x224
        Model('Llama 3.1 8B', tuple(_llama(32, 4096, 14336, 1024)), 2),  # in bfloat16
        Model('Llama 3.1 70B', tuple(_llama(80, 8192, 28672, 1024)), 2),
        Model('Llama 3.1 405B', tuple(_llama(126, 16384, 53248, 1024)), 2),
    ),
)
