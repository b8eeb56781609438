"""Communication time over computing time, for each way to split a training; above 1, it shows.

All follow from C/W, the operations that a device performs while it sends a byte. Numbers have 2
bytes, computing includes forward and backward, latencies are ignored. ``weights`` are parameters.
"""

from __future__ import annotations

import math

from .. import arguments


def data_load(
    cw: float,
    tokens: float,
    gradient_bytes: int = 2,
    devices: float = math.inf,
    local_steps: int = 1,
) -> float:
    """Compare the allreduce of gradients with the backward pass of a device's ``tokens``.

    ``devices`` is the size of the ring; a large ring sends each byte twice. With ``local_steps``
    between two sums, as in DiLoCo, each step pays a share of one.
    """
    arguments.positive_number('tokens', tokens)
    arguments.positive_int('local_steps', local_steps)
    return gradient_bytes / 2 * (1 - 1 / devices) * cw / tokens / local_steps


def sharded_load(
    cw: float, tokens: float, gradient_bytes: int = 2, devices: float = math.inf
) -> float:
    """Compare FSDP's two gathers of parameters and one scatter of gradients with a whole step."""
    arguments.positive_number('tokens', tokens)
    return (2 * 2 + gradient_bytes) / 6 * (1 - 1 / devices) * cw / tokens


def tensor_load(cw: float, devices: int, width: int, weights: float) -> float:
    """Compare a block's four allreduces of activations with its matrix products.

    Shoeybi and others (2019). A GPT's block has 12 ``width`` ** 2 ``weights``.
    """
    arguments.positive_number('weights', weights)
    return 8 / 3 * (devices - 1) * cw * width / weights


def pipeline_load(cw: float, width: int, weights: float) -> float:
    """Compare activations sent on, and their gradients sent back, with a stage's products."""
    arguments.positive_number('weights', weights)
    return 2 / 3 * cw * width / weights


def context_load(cw: float, tokens: float, keys_per_query: float) -> float:
    """Compare one round of ring attention, sending keys and values, with computing attention.

    Each device has ``tokens`` of the sequence; a causal mask leaves half of their pairs.
    ``keys_per_query`` is the number of key heads over the number of query heads.
    """
    arguments.positive_number('tokens', tokens)
    return 2 * cw * keys_per_query / tokens


def expert_load(cw: float, devices: int, hidden: int, products: int = 3) -> float:
    """Compare tokens sent to experts and back with the ``products`` inside an expert.

    Each token's vector travels four times, forward and backward, except to an expert on its own
    device (or server: ``devices`` counts servers where ``cw`` is that of a network port).
    ``hidden`` is the width inside the expert; SwiGLU has three products, a plain MLP two.
    """
    arguments.positive_int('hidden', hidden)
    return 4 / 3 * (1 - 1 / devices) * cw / hidden / products
