"""Functions that are called in several new processes at the same time."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .. import arguments
from .group import Group
from .launching import dumps

if TYPE_CHECKING:
    from .group import Member

    Call = tuple[tuple[Any, ...], dict[str, Any]]  # args, kwargs


def _payloads(function: Callable[..., Any], calls: Sequence[Call]) -> list[bytes]:
    """Pickle each call; one that stands in the list several times only once."""
    try:
        pickled = {key: dumps((function, *call)) for key, call in {id(c): c for c in calls}.items()}
    except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
        raise TypeError(
            f'the function, or something that it uses, cannot be sent to another process: {error}. '
            'Make or open it inside the function.'
        ) from error
    return [pickled[id(call)] for call in calls]


def start_workers(
    group: Group,
    function: Callable[..., Any],
    calls: Sequence[Call],
    names: Sequence[str],
    envs: Sequence[Mapping[str, str]] | None = None,
) -> list[Member]:
    """Start a process of a group for each call, as ``run_workers`` does; ``wait`` waits for them.

    Afterwards each has a ``result``. What cannot be sent is a TypeError before anything starts.
    """
    arguments.function('function', function, 'that each process is to call')
    if not len(calls) == len(names) == len(envs or names):
        raise ValueError(
            f'{len(calls)} calls, {len(names)} names and {len(envs or names)} environments: give '
            'one of each per process'
        )
    payloads = _payloads(function, calls)
    # The same search path as here, so that what can be imported here can be imported there.
    code = (
        f'import sys; sys.path[:] = {sys.path!r}\n'
        'from mgpu_helpers.processes import worker; worker._main()'
    )
    return [
        group.start(name, [sys.executable, '-c', code], env, payload)
        for name, payload, env in zip(names, payloads, envs or [{}] * len(names))
    ]


def run_workers(
    function: Callable[..., Any],
    calls: Sequence[Call],
    names: Sequence[str],
    envs: Sequence[Mapping[str, str]] | None = None,
    on_line: Callable[[str, str], object] | None = None,
    timeout: float | None = None,
) -> list[Any]:
    """Call a function in several new processes at the same time; give back what each returned.

    It may be a notebook's own: it travels by value (cloudpickle). For each process, ``calls`` has
    ``(args, kwargs)``, ``names`` what messages call it, ``envs`` environment variables to add. If
    it raises in one, or one ends otherwise, the others are stopped, and ``ProcessFailed`` has that
    one's own traceback. For the rest see ``Group.wait``.
    """
    with Group() as group:
        workers = start_workers(group, function, calls, names, envs)
        group.wait(on_line, timeout)
    return [worker.result for worker in workers]
