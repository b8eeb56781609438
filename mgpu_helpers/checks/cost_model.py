"""Checks of what the cost model gets."""

from __future__ import annotations

from typing import Any

from .values import expect, one_of, positive_int, positive_number, whole_number


def _has(value: object, *names: str) -> bool:
    return all(hasattr(value, name) for name in names)


def message(devices: object, nbytes: object, link: object) -> None:
    """Raise unless the cost of an allreduce can be worked out with these."""
    positive_int('devices', devices)
    positive_number('nbytes', nbytes)
    expect(_has(link, 'seconds'), 'link', "a Link, such as LINKS['PCIe 3 x16']", link)


def power_of_two(devices: int) -> None:
    """Raise unless tree and ring can cost the same with so many devices."""
    fits = devices >= 4 and not devices & (devices - 1)
    expect(fits, 'devices', '4, 8, 16 or another power of two', devices, ValueError)


def levels(value: Any) -> None:
    """Raise unless ``value`` lists (devices, link), one for each level of a machine."""
    lists = (list, tuple)
    fits = isinstance(value, lists) and all(isinstance(l, lists) and len(l) == 2 for l in value)
    wanted = (
        'a list of (devices, link), innermost first, such as '
        "[(4, LINKS['PCIe 3 x16']), (128, LINKS['25 Gb RoCE'])]"
    )
    expect(bool(fits and value), 'levels', wanted, value)


def zero_stage(stage: object) -> None:
    """Raise unless ZeRO has such a stage."""
    whole_number('stage', stage)
    one_of('stage', str(stage), ('0', '1', '2', '3'))


def model(value: object) -> None:
    """Raise unless ``value`` is a network as the cost model sees it."""
    fits = _has(value, 'nbytes', 'flops', 'activations', 'layers')
    expect(fits, 'model', "a Model, such as MODELS['VGG-16']", value)


def machine(value: object) -> None:
    """Raise unless ``value`` is a machine as the cost model sees it."""
    fits = _has(value, 'flops', 'link', 'levels')
    expect(fits, 'machine', "a Machine, such as MACHINES['p3.16xlarge']", value)
