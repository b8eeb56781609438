"""MXNet's own allreduce, through its key-value store."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import mxnet as mx

from .. import checks

if TYPE_CHECKING:
    from mxnet.kvstore import KVStore
    from mxnet.ndarray import NDArray


def allreduce_kvstore(data: Sequence[NDArray]) -> None:
    """Sum with MXNet's own key-value store, in place: NCCL's on GPUs where it is built in.

    One call from Python, whatever the number of devices. The store keeps an array of each shape.
    """
    checks.one_per_device(data)
    store = _store_for(tuple(x.context for x in data))
    key = f'{data[0].dtype.__name__}{data[0].shape}'
    if key not in store.keys:
        store.init(key, data[0])
        store.keys.add(key)
    store.pushpull(key, data, out=data)


@functools.lru_cache(maxsize=16)
def _store_for(devices: tuple[mx.Context, ...]) -> KVStore:
    nccl = mx.runtime.Features().is_enabled('NCCL') and len(devices) > 1
    on_gpus = all(d.device_type == 'gpu' for d in devices)
    store = mx.kv.create('nccl' if nccl and on_gpus else 'device')
    store.keys = set()  # those that it has been initialized with
    return store
