"""Checks of Gluon's networks, and of what a step of one takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .arrays import Array, batch, shards
from .values import expect, function, one_of

# MXNet takes any other name for 'local', without a word.
STORES = ('local', 'device', 'nccl', 'dist_sync', 'dist_device_sync', 'dist_async')


def store(name: str, kind: object) -> None:
    """Raise unless ``kind``, a name or a store, is a kind of key-value store that MXNet has."""
    one_of(name, getattr(kind, 'type', kind), STORES)


def network(net: Any, devices: Sequence[object] = ()) -> None:
    """Raise unless a network can be trained there: with ``SyncBatchNorm``, two stand-ins hung."""
    fits = hasattr(net, 'collect_params') and not isinstance(net, type)
    expect(fits, 'net', 'a Gluon network, such as lenet()', net)
    layers: list[str] = []
    if len(devices) > 1:
        net.apply(lambda block: layers.append(type(block).__name__))
    if 'SyncBatchNorm' in layers:
        raise ValueError('SyncBatchNorm hangs on several devices in MXNet 1.9.1: use BatchNorm')


def some_gradient(net_devices: Sequence[object], params: Sequence[Any]) -> None:
    """Raise unless one of a network's parameters has a gradient."""
    if all(p.grad_req == 'null' for p in params):
        raise ValueError(f"no parameter on {net_devices} has a gradient: all have grad_req 'null'")


def network_step(
    X: Array, y: Array, devices: Any, trainer: Any, net_devices: Any, params: Any
) -> None:
    """Raise unless a batch can be trained on, by a network with these parameters and devices."""
    batch(X, y, devices, fewer=False)
    if set(net_devices) != set(devices):
        raise ValueError(
            f'the network is initialized on {net_devices}, not on {list(devices)}: initialize it '
            'there, or move it with net.collect_params().reset_ctx(devices)'
        )
    expect(hasattr(trainer, '_contexts'), 'trainer', 'make_trainer(net, lr)', trainer)
    # Private names, but MXNet is retired. A trainer for too few devices would crash the process.
    if kind := trainer._kvstore_params['kvstore']:
        store("the trainer's key-value store", kind)
    if trainer._contexts != net_devices or not set(trainer._params) <= set(params):
        raise ValueError(
            'the trainer was made for another network, or for this one when it was not on '
            f'{net_devices}: make a new one, make_trainer(net, lr)'
        )


def network_shards(
    data: Sequence[Array], label: Sequence[Array], loss: object, net_devices: Sequence[object]
) -> None:
    """Raise unless there is a shard of labels for each shard of data, where the network is."""
    shards(data, label)
    function('loss', loss, 'of scores and labels')
    for X, y in zip(data, label):
        here, there = (getattr(x, 'context', 'no device') for x in (X, y))
        if here not in net_devices or there != here:
            raise ValueError(
                f'a shard of data is on {here} and its labels are on {there}, but the network is '
                f'initialized on {net_devices}: load both onto one of these'
            )
