"""Checks of what the cost model gets, one call each; and the dictionaries of what it knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn, TypeVar

from ..checks import one_of, positive_int, positive_number, shown, whole_number


def check_message(devices: object, nbytes: object, link: object) -> None:
    """Raise unless the cost of an allreduce can be worked out with these; see ``costs``."""
    positive_int('devices', devices)
    positive_number('nbytes', nbytes)
    if not callable(getattr(link, 'seconds', None)):
        raise TypeError(f"link must be a Link, such as LINKS['PCIe 3 x16'], not {shown(link)}")


def check_power_of_two(devices: int) -> None:
    """Raise unless two algorithms' costs meet for so many devices; see ``costs``."""
    if devices < 4 or devices & (devices - 1):
        raise ValueError(f'devices must be 4, 8, 16 or another power of two, not {devices}')


def check_levels(value: object) -> None:
    """Raise unless ``value`` lists (devices, link), one for each level of a machine."""
    if not (isinstance(value, (list, tuple)) and value) or not all(
        isinstance(level, (list, tuple)) and len(level) == 2 for level in value
    ):
        raise TypeError(
            'levels must be a list of (devices, link), innermost first, such as '
            f"[(4, LINKS['PCIe 3 x16']), (128, LINKS['25 Gb RoCE'])], not {shown(value)}"
        )


def check_stage(stage: int) -> None:
    """Raise unless ZeRO has such a stage."""
    whole_number('stage', stage)
    one_of('stage', str(stage), tuple('0123'))


def check_counts(name: str, values: object) -> None:
    """Raise unless ``values`` is a non-empty list of integers of at least 1."""
    if not isinstance(values, (list, tuple, range)):
        raise TypeError(
            f'{name} must be a list of integers, such as [1, 2, 4], not {shown(values)}'
        )
    if not values:
        raise ValueError(f'{name} is empty: give at least one number, such as [1, 2, 4]')
    for value in values:
        positive_int(f'each of {name}', value)


def check_model(value: object) -> None:
    """Raise unless ``value`` is a network as the cost model sees it."""
    if not all(hasattr(value, name) for name in ('nbytes', 'flops', 'activations', 'layers')):
        raise TypeError(f"model must be a Model, such as MODELS['VGG-16'], not {shown(value)}")


def check_machine(value: object) -> None:
    """Raise unless ``value`` is a machine as the cost model sees it."""
    if not all(hasattr(value, name) for name in ('flops', 'link', 'levels')):
        raise TypeError(
            f"machine must be a Machine, such as MACHINES['p3.16xlarge'], not {shown(value)}"
        )


Entry = TypeVar('Entry')  # it has a name


class Library(dict[str, Entry]):
    """A dictionary of named things that says what there is, where something else is asked for."""

    def __init__(self, kind: str, entries: Iterable[Entry]) -> None:
        super().__init__((entry.name, entry) for entry in entries)  # type: ignore[attr-defined]
        self.kind = kind

    def __missing__(self, name: object) -> NoReturn:
        raise KeyError(
            f'there is no {self.kind} {name!r}; there are: {", ".join(self)}; or make your own'
        )
