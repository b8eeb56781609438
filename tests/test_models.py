"""Sizes of networks: against MXNet's own networks, and against what was published."""

import math

import mxnet as mx
import pytest
from mxnet.gluon.model_zoo import vision

from mgpu_helpers import gluon
from mgpu_helpers.scaling import MODELS, Layer, Model

# name: (our network in MXNet, shape of an image)
IN_MXNET = {
    'LeNet': (gluon.lenet, (1, 28, 28)),
    'ResNet-18 (28x28)': (lambda: gluon.resnet18_28(10), (1, 28, 28)),
    'Inception V3': (vision.inception_v3, (3, 299, 299)),
    'VGG-16': (vision.vgg16, (3, 224, 224)),
}


@pytest.mark.parametrize('name', IN_MXNET)
def test_the_same_network_in_mxnet(name):
    build, shape = IN_MXNET[name]
    net, seen = build(), []

    def look(block, inputs, output):
        if isinstance(block, (mx.gluon.nn.Conv2D, mx.gluon.nn.Dense)):
            pixels = math.prod(output.shape[2:])  # 1 where there are none
            seen.append((2 * math.prod(block.weight.shape) * pixels, output.size))

    net.initialize()
    net.apply(lambda block: block.register_forward_hook(look))
    net(mx.nd.zeros((1, *shape)))
    model = MODELS[name]
    assert model.nbytes == 4 * model.parameters
    trained = [p for p in net.collect_params().values() if p.grad_req != 'null']
    assert model.parameters == sum(math.prod(p.shape) for p in trained)
    layers = sorted((x.flops, x.activations) for x in model.layers if x.flops)
    for (ours, activations), (flops, size) in zip(layers, sorted(seen), strict=True):
        # With its norm's output, where it has one.
        assert ours == flops and activations in (size, 2 * size)


def test_published_sizes():
    # torchvision's documentation: parameters and giga multiply-adds, two operations each
    for name, parameters, multiply_adds in (
        ('ResNet-50', 25_557_032, 4.09e9),
        ('ResNet-101', 44_549_160, 7.80e9),
        ('VGG-16', 138_357_544, 15.47e9),
    ):
        assert MODELS[name].parameters == parameters
        assert MODELS[name].flops / 2 == pytest.approx(multiply_adds, abs=0.005e9)
    assert MODELS['Inception V3'].flops / 2 == pytest.approx(5.71e9, abs=0.005e9)
    # Radosavovic et al. 2020 (arXiv 2003.13678) count each convolution's output once, we also its
    # normalization's.
    for name, millions in (('ResNet-50', 11.1), ('ResNet-101', 16.2)):
        assert MODELS[name].activations / 2e6 == pytest.approx(millions, abs=0.05)


def test_llamas_have_the_published_sizes():
    for size, parameters in (('8B', 8.03e9), ('70B', 70.6e9), ('405B', 405.9e9)):
        model = MODELS[f'Llama 3.1 {size}']
        assert model.parameters == pytest.approx(parameters, rel=0.002)
        assert model.nbytes == 2 * model.parameters
        # Two operations for each parameter and token, the embedding's aside, and the attention's.
        seen = 2 * 8192 * (model.parameters - model.layers[0].parameters)
        assert 1 < model.flops / seen < 1.2


def test_what_a_model_refuses():
    for layers, words in (
        ([], "parameters of 'x' must be at least 1, not 0"),
        ([Layer('fc', 10, 0)], "flops of 'x' must be a number above 0, not 0"),
    ):
        with pytest.raises(ValueError, match=words):
            Model('x', layers)
