"""Several ways at once: the ranks form a mesh, each of its axes a way to share the work."""

from __future__ import annotations

import math

import torch
import torch.distributed as dist

from ... import checks
from ..ranks import check_group


def mesh_groups(*sizes: int) -> list[dist.ProcessGroup]:
    """Arrange all ranks as a mesh, and give this one's groups, one for each axis of the mesh.

    In each are the ranks that differ from this one along that axis only; numbers run fastest along
    the last one. ``mesh_groups(2, 4)`` of 8 ranks: on rank 5 first ranks 1 and 5, then 4 to 7. All
    ranks call it. ``init_device_mesh`` makes the same groups: ``mesh.get_group(axis)``.
    """
    check_mesh(sizes)
    ranks = torch.arange(dist.get_world_size()).view(sizes)
    groups = []
    for axis, size in enumerate(sizes):
        for line in ranks.movedim(axis, -1).reshape(-1, size).tolist():
            group = dist.new_group(line)  # all ranks make all groups, also those of others
            if dist.get_rank() in line:
                groups.append(group)
    return groups


def check_mesh(sizes: tuple[int, ...]) -> None:
    """Raise unless the ranks of this group fill a mesh of these sizes."""
    check_group()
    for size in sizes:
        checks.positive_int('the size of a mesh along an axis', size)
    size, ranks = math.prod(sizes), dist.get_world_size()
    if size != ranks:
        mesh = ' x '.join(map(str, sizes))
        raise ValueError(
            f'a mesh of {mesh} takes {size} ranks, and there are {ranks}: choose sizes whose '
            f'product is {ranks}, or start {size} processes'
        )
