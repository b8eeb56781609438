"""Ranks that live in the notebook: processes in which the cells that begin with ``%%px`` run.

They are ``ipyparallel``'s engines, on this machine. What is under ``%%px`` could stand in a script
under ``torchrun``: the same variables in the environment, the same calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import arguments
from .processes.engines import MOST, Engines

if TYPE_CHECKING:
    import ipyparallel

_engines: list[Engines] = []  # those that run


def ranks(k: int, group: bool = False, seconds: float = 20) -> ipyparallel.Client:
    """Start ``k`` ranks on this machine, instead of those that this notebook has; give the client.

    A cell that begins with ``%%px`` runs on all of them, with ``%%px --targets 1`` on rank 1 alone,
    and what each prints stands below it. ``ranks[:]['x']`` is ``x`` of all ranks, in their order (a
    dict comes with its keys sorted). Each has one thread, ``torchrun``'s variables, and with
    ``group`` is in a process group, in which a rank that waits in vain gives up after ``seconds``.
    """
    arguments.positive_int('the number of ranks', k, most=MOST)
    arguments.positive_number('seconds', seconds)
    stop()
    _engines.append(Engines(k))
    if group:
        _engines[0].join(seconds)
    _activate(_engines[0].client)
    return _engines[0].client


def stop() -> None:
    """End this notebook's ranks; the notebook's end does it, too."""
    while _engines:
        _engines.pop().stop()


def _activate(client: ipyparallel.Client) -> None:
    """Let ``%%px`` show the outputs rank by rank, so that they repeat exactly."""
    from IPython.core.getipython import get_ipython

    if shell := get_ipython():
        client.activate()
        magics = shell.magics_manager.registry['ParallelMagics']
        magics.progress_after_seconds = -1  # no bar
        show, run = '--no-stream --group-outputs=engine ', magics.cell_px
        px: Any = lambda line, cell: run(show + line, cell)  # noqa: E731
        shell.register_magic_function(px, 'cell', 'px')
