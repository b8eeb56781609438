"""Which of a machine's GPUs each of its processes sees."""

from __future__ import annotations

import os

from ..devices.driver import driver_gpus

NO_GPU = {'CUDA_VISIBLE_DEVICES': ''}  # the scheduler and the servers would only take memory there


def share_gpus(index: int, workers: int) -> dict[str, str]:
    """Give a worker its part of this machine's GPUs, by ``CUDA_VISIBLE_DEVICES``; {} without GPUs.

    If there are fewer GPUs than workers here, nobody gets one, so that all compute alike.
    """
    count = len(driver_gpus())
    if not count:
        return {}
    given = os.environ.get('CUDA_VISIBLE_DEVICES')
    names = given.split(',')[:count] if given else [str(i) for i in range(count)]
    part = names[count * index // workers : count * (index + 1) // workers]
    return {'CUDA_VISIBLE_DEVICES': ','.join(part if count >= workers else [])}
