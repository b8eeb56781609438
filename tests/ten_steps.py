"""Ten steps of Adam on chapter 7's network in float64: what one device does, and how near we come.

Neither 2 nor 4 divides the 47 examples of a batch, nor the 38 of the last one.
"""

import functools

import numpy as np
import torch

import mgpu_helpers as mgpu

pt = mgpu.pytorch
START = {'width': 32, 'heads': 4, 'depth': 4, 'seed': 5}


@functools.cache
def batches():
    return list(pt.load_data_fashion_mnist(47, 461, seed=3, dtype='float64')[0])


def backward(net, X, y, share=1):
    """Leave the gradients of the mean loss times ``share``; return that loss."""
    mean = pt.loss(net(X), y).mean() * share
    mean.backward()
    return mean.item()


def ten_steps(net, gradients=backward):
    """Return the losses; ``gradients(net, X, y)`` leaves gradients and returns one loss."""
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=1e-3), []
    for X, y in batches():
        optimizer.zero_grad()
        losses.append(gradients(net, X, y))
        optimizer.step()
    assert len(losses) == 10
    return losses


def values(state):
    """Copy a state dict to NumPy."""
    return {name: value.detach().numpy().copy() for name, value in state.items()}


def one_device():
    net = pt.vit(**START)
    return ten_steps(net), values(net.state_dict())


def apart(ours, theirs):
    """Relative to the norm of all values in one vector."""
    assert list(ours) == list(theirs)
    a, b = (np.concatenate([x.ravel() for x in state.values()]) for state in (ours, theirs))
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def same_bits(ours, theirs):
    return list(ours) == list(theirs) and all(
        np.array_equal(ours[name], theirs[name]) for name in ours
    )


def check(result, one):
    """Compare losses and parameters with those of one device."""
    losses, state = result
    np.testing.assert_allclose(losses, one[0], rtol=1e-10)
    assert apart(state, one[1]) < 1e-10


def said(function, *args, **options):
    """Return the error that a call raises."""
    try:
        function(*args, **options)
    except (TypeError, ValueError, RuntimeError) as error:
        return f'{type(error).__name__}: {error}'
    return 'nothing'


def refused(*table):
    """Check that each call of a table raises an error with the words beside it."""
    for words, *call in table:
        assert words in said(*call), (words, said(*call))
