"""The bill for a training run: operations, GPU hours, money, and the cost of failures."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import arguments
from .links import PUBLISHED, Library

# Hours between two failures of one GPU: 419 in 54 days on 16,384 H100 (Llama 3's paper, 2024).
BETWEEN_FAILURES = 54 * 24 * 16_384 / 419


@dataclass(frozen=True)
class Chip:
    """A GPU model, with its data sheet's operations per second for dense bfloat16."""

    name: str
    flops: float


@dataclass(frozen=True)
class Training:
    """A training run with published GPU hours."""

    name: str
    parameters: float
    tokens: float
    chip: str
    gpu_hours: float


CHIPS = Library('chip', (Chip(name, flops) for name, flops in PUBLISHED['chips'].items()))
TRAININGS = Library('training', (Training(name, **x) for name, x in PUBLISHED['trainings'].items()))


def gpu_hours(parameters: float, tokens: float, peak: float, mfu: float) -> float:
    """Compute the GPU hours of a transformer's training run.

    Each of the ``tokens`` tokens takes 6 operations per parameter, 2 forward and 4 backward;
    attention's own, a few percent, are ignored. ``peak`` is the data sheet's operations per second,
    and ``mfu`` the fraction of it that is achieved (Chowdhery and others 2022).
    """
    arguments.positive_number('parameters', parameters)
    arguments.positive_number('tokens', tokens)
    arguments.positive_number('peak', peak)
    arguments.expect(0 < mfu <= 1, 'mfu', 'a share above 0 and at most 1', mfu, ValueError)
    return 6 * parameters * tokens / (mfu * peak) / 3600


def checkpoint_interval(save: float, between_failures: float) -> float:
    """Return the checkpoint interval that loses the least time, in the same unit (Young 1974)."""
    arguments.positive_number('save', save)
    arguments.positive_number('between_failures', between_failures)
    return math.sqrt(2 * save * between_failures)


def time_lost(save: float, restart: float, between_failures: float, every: float) -> float:
    """Return the share of time lost to saving, repeated work and restarts.

    On average, a failure happens halfway between two checkpoints. All times must be in the same
    unit.
    """
    arguments.positive_number('save', save)
    arguments.not_negative('restart', restart)
    arguments.positive_number('between_failures', between_failures)
    arguments.positive_number('every', every)
    return save / every + (every / 2 + restart) / between_failures


def tokens_needed(tokens: float, batch: float, critical: float) -> float:
    """Return how many tokens it takes to reach the same loss with batches of ``batch`` tokens.

    Very small batches take ``tokens``. Batches of ``critical`` tokens take twice as many, in twice
    as many steps as infinite batches (McCandlish and others 2018).
    """
    arguments.positive_number('tokens', tokens)
    arguments.positive_number('batch', batch)
    arguments.positive_number('critical', critical)
    return tokens * (1 + batch / critical)
