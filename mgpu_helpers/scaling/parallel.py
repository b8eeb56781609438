"""What the ways of chapters 4 to 7 send and leave idle: servers, shards, cut layers, pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from .costs import ring

if TYPE_CHECKING:
    from .links import Link


def parameter_servers(workers: int, servers: int, nbytes: float, link: Link) -> float:
    """Cost a push and a pull: each worker sends every server its slice, and gets the sum back.

    A server has the slices of all workers to take, a worker those for all servers to send: the
    larger number follow one another.
    """
    checks.message(workers, nbytes, link)
    checks.positive_int('servers', servers)
    return 2 * max(workers, servers) * link.seconds(nbytes / servers)


def zero(stage: int, devices: int, nbytes: float, link: Link) -> float:
    """Cost a step of ZeRO: gradients scattered, parameters gathered; in stage 3 gathered twice.

    Rajbhandari and others (2020). Up to stage 2 that is an allreduce in two halves; stage 3 (FSDP)
    gathers parameters for the forward pass and once more for the backward pass. ``nbytes`` are
    those of all parameters.
    """
    checks.whole_number('stage', stage, most=3)
    return (1.5 if stage == 3 else 1) * ring(devices, nbytes, link)


def tensor_parallel(devices: int, blocks: int, nbytes: float, link: Link) -> float:
    """Cost the sums of a transformer whose layers are cut: two forward and two backward a block.

    Shoeybi and others (2019). ``nbytes`` are those of one block's output; each next product waits
    for the sum, so nothing hides it.
    """
    checks.positive_int('blocks', blocks)
    return 4 * blocks * ring(devices, nbytes, link)


def bubble(stages: int, micro_batches: int) -> float:
    """Give the share of a step in which a device of a pipeline waits, 0 to 1.

    Huang and others (2019), for equally long stages. The same for GPipe and 1F1B; these differ in
    the activations that are kept: of all micro-batches, or of at most ``stages``.
    """
    checks.positive_int('stages', stages)
    checks.positive_int('micro_batches', micro_batches)
    return (stages - 1) / (micro_batches + stages - 1)
