"""Ratios of communication time to computing time, for each way to split; above 1, it shows.

All follow from C/W, the operations that a device performs while it sends a byte. Numbers take 2
bytes, computing is forward and backward, latency is ignored. ``weights`` counts parameters.
"""

from __future__ import annotations

import math

from .. import arguments


def data_load(
    cw: float, tokens: float, gradient_bytes: int = 2, devices: float = math.inf
) -> float:
    """Return the time of the gradients' allreduce over that of the backward pass for ``tokens``.

    ``devices`` is the size of the ring; a large ring sends each byte twice.
    """
    arguments.positive_number('tokens', tokens)
    return gradient_bytes / 2 * (1 - 1 / devices) * cw / tokens


def sharded_load(
    cw: float, tokens: float, gradient_bytes: int = 2, devices: float = math.inf
) -> float:
    """Return the time of FSDP's two gathers and one scatter over that of a step's computation."""
    arguments.positive_number('tokens', tokens)
    return (2 * 2 + gradient_bytes) / 6 * (1 - 1 / devices) * cw / tokens


def tensor_load(cw: float, devices: int, width: int, weights: float) -> float:
    """Return the time of a block's four allreduces over that of its matrix products.

    From Shoeybi and others (2019). A GPT's block has 12 ``width`` ** 2 ``weights``.
    """
    arguments.positive_number('weights', weights)
    return 8 / 3 * (devices - 1) * cw * width / weights


def pipeline_load(cw: float, width: int, weights: float) -> float:
    """Return the time to send activations and gradients over that of a stage's matrix products."""
    arguments.positive_number('weights', weights)
    return 2 / 3 * cw * width / weights
