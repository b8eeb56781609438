"""Start ranks for a notebook: processes that run the cells beginning with ``%%px``.

They are ``ipyparallel``'s engines, on this machine. Code under ``%%px`` also works in a script
under ``torchrun``, with the same environment variables and calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import arguments
from .processes.engines import MOST, Engines

if TYPE_CHECKING:
    import ipyparallel

_engines: list[Engines] = []  # the running ranks, at most one entry


def ranks(k: int, group: bool = False, seconds: float = 20) -> ipyparallel.Client:
    """Start ``k`` ranks on this machine, replacing this notebook's earlier ones; return the client.

    A cell that begins with ``%%px`` runs on all of them, with ``%%px --targets 1`` only on rank 1,
    and each rank's output appears below it. ``ranks[:]['x']`` lists all ranks' ``x`` in rank order
    (and sorts the keys of dicts). Each rank has one thread and ``torchrun``'s variables. With
    ``group`` they are in a process group, in which a waiting rank gives up after ``seconds``.
    """
    arguments.positive_int('the number of ranks', k, most=MOST)
    arguments.positive_number('seconds', seconds)
    stop()
    _engines.append(Engines(k, seconds if group else None))
    _activate(_engines[0].client)
    return _engines[0].client


def stop() -> None:
    """End this notebook's ranks; this also happens when the notebook ends."""
    while _engines:
        _engines.pop().stop()


def _activate(client: ipyparallel.Client) -> None:
    """Make ``%%px`` show outputs rank by rank, so that every run looks the same."""
    from IPython.core.getipython import get_ipython

    if shell := get_ipython():
        client.activate()
        magics = shell.magics_manager.registry['ParallelMagics']
        magics.progress_after_seconds = -1  # no bar
        show, run, k = '--no-stream --group-outputs=engine ', magics.cell_px, len(client.ids)
        signal, sent = client.send_signal, list[bool]()

        def noted(*args: Any, **kwargs: Any) -> Any:
            sent.append(True)
            return signal(*args, **kwargs)

        def px(line: str, cell: str) -> None:
            if len(client.ids) < k:  # ipyparallel would run it on the remaining ones
                raise RuntimeError('a rank has exited: start new ones with mgpu.ranks')
            # A rank interrupted in a message notices at the time-out only, and drops its next cell.
            client.wait(client.outstanding)
            sent.clear()
            try:
                run(show + line, cell)
            except TimeoutError:
                if not sent:
                    raise
            if sent:  # ipyparallel passes an interrupt on to the ranks, and then reports success
                raise KeyboardInterrupt('some ranks may have done more than others: start new ones')

        client.send_signal = noted
        magic: Any = px
        shell.register_magic_function(magic, 'cell', 'px')
