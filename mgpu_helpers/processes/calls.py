"""Functions that are called in several new processes at the same time."""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .group import NOTHING, Group, ProcessFailed

if TYPE_CHECKING:
    from .group import Member

    Call = tuple[tuple[Any, ...], dict[str, Any]]  # args, kwargs


def _payloads(function: Callable[..., Any], calls: Sequence[Call]) -> list[bytes]:
    """Pickle a call for each process; one that stands in the list several times only once."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, value: Any) -> Any:
            # Modules travel by name. cloudpickle knows those of the very type ModuleType, and
            # lazy_loader gives ours, such as `mgpu`, a type of its own.
            if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value:
                return importlib.import_module, (value.__name__,)
            return super().reducer_override(value)

    done = {}
    for args, kwargs in calls:
        key = id(args), id(kwargs)
        if key not in done:
            file = io.BytesIO()
            try:
                Pickler(file).dump((function, args, kwargs))
            except (TypeError, ValueError, AttributeError, pickle.PicklingError) as error:
                raise TypeError(
                    f'the function, or something that it uses, cannot be sent to another process: '
                    f'{error}. Make or open it inside the function.'
                ) from error
            done[key] = file.getvalue()
    return [done[id(args), id(kwargs)] for args, kwargs in calls]


def start_workers(
    group: Group,
    function: Callable[..., Any],
    calls: Sequence[Call],
    names: Sequence[str],
    envs: Sequence[Mapping[str, str]] | None = None,
) -> list[Member]:
    """Start a process of a group for each call of a function.

    Parameters
    ----------
    group : Group
        To which they shall belong; its ``wait`` waits for them.
    function, calls, names, envs
        See ``run_workers``.

    Returns
    -------
    list of Member
        For ``results_of``, when they have ended.

    Raises
    ------
    TypeError
        If the function or something that it uses cannot be sent; no process has been started then.

    Examples
    --------
    >>> with Group() as group:
    ...     workers = start_workers(group, pow, [((2, 3), {})], ['worker 0'])
    ...     group.wait()
    >>> results_of(workers)
    [8]
    """
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


def results_of(members: Sequence[Member]) -> list[Any]:
    """Give what the functions returned in workers that have ended.

    Parameters
    ----------
    members : list of Member
        As ``start_workers`` gave them.

    Returns
    -------
    list
        In the same order.

    Raises
    ------
    ProcessFailed
        If one ended before its function had returned.

    Examples
    --------
    >>> results_of([])
    []
    """
    for member in members:
        if member.result is NOTHING:
            raise ProcessFailed(member.name, 0, 'ended before its function had returned')
    return [member.result for member in members]


def run_workers(
    function: Callable[..., Any],
    calls: Sequence[Call],
    names: Sequence[str],
    envs: Sequence[Mapping[str, str]] | None = None,
    on_line: Callable[[str, str], object] | None = None,
    on_message: Callable[[str, str, Any], object] | None = None,
    timeout: float | None = None,
) -> list[Any]:
    """Call a function in several new processes at the same time; give back what each returned.

    Parameters
    ----------
    function : callable
        Also one that was defined in a notebook: it travels by value (cloudpickle).
    calls : list of tuple
        For each process, ``(args, kwargs)``.
    names : list of str
        What each is called in messages.
    envs : list of dict, optional
        Environment variables to add, for each.
    on_line, on_message, timeout
        See ``Group.wait``.

    Returns
    -------
    list
        In the order of ``calls``.

    Raises
    ------
    ProcessFailed
        If the function raised in one of them, or one ended otherwise; the others are stopped. The
        message has that worker's own traceback.
    TimeoutError
        See ``Group.wait``.

    Examples
    --------
    >>> run_workers(pow, [((2, 3), {}), ((3, 2), {})], ['worker 0', 'worker 1'])
    [8, 9]
    """
    with Group() as group:
        workers = start_workers(group, function, calls, names, envs)
        group.wait(on_line, on_message, timeout)
    return results_of(workers)
