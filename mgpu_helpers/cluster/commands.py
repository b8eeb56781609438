"""``launch`` and ``join`` on the command line: options in, words and an exit status out."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import click

from ..processes import ProcessFailed
from . import joining, launching
from .probe import sentence
from .terminal import Ended, show, signals_end

F = TypeVar('F', bound=Callable[..., Any])

BAD_USAGE, TOO_LATE = 2, 124  # the second is what the program `timeout` says
# Everything after the first word that is no option belongs to the command; `--` may stand before.
SETTINGS = {'allow_interspersed_args': False, 'help_option_names': ['-h', '--help']}


def status_of(error: ProcessFailed | TimeoutError | Ended) -> int:
    """Give the exit status that tells a shell how it ended.

    That is 128 + n for signal n, 124 for a time limit, otherwise that of the process that failed.

    >>> status_of(ProcessFailed('worker 0', -9, 'was killed')), status_of(TimeoutError())
    (137, 124)
    """
    if isinstance(error, TimeoutError):
        return TOO_LATE
    if isinstance(error, ProcessFailed):
        return error.status if error.status > 0 else 128 - error.status
    return 128 + error.number


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be what has gone
        click.echo(text, err=True)


def _refuse(error: Exception) -> NoReturn:
    """End before anything was started: one sentence."""
    _say(f'Error: {sentence(error)}')
    sys.exit(BAD_USAGE)


def _options(function: F) -> F:
    """Add what both commands have."""
    options = (
        click.option('-n', '--workers', type=int, required=True, help='How many workers.'),
        click.option(
            '-s', '--servers', type=int, default=1, show_default=True, help='How many servers.'
        ),
        click.option(
            '--connect-timeout',
            type=float,
            default=60,
            show_default=True,
            metavar='SECONDS',
            help='How long to wait until all have found each other.',
        ),
        click.argument('command', nargs=-1, required=True, type=click.UNPROCESSED),
    )
    return functools.reduce(lambda f, option: option(f), reversed(options), function)


@click.command(context_settings=SETTINGS)
@_options
@click.option('--hostfile', metavar='FILE', help="Machines, one 'name [slots=N]' per line.")
@click.option('--port', type=int, help='Of the scheduler; the others have those that follow.')
@click.option('--timeout', type=float, metavar='SECONDS', help='Stop all after this time.')
@click.option('--ssh', default='ssh', show_default=True, help='The program, with its options.')
@click.option('--python', help='The Python on other machines, if its path is another.')
def launch(command: tuple[str, ...], workers: int, servers: int, **options: Any) -> None:
    """Run COMMAND in several workers, with the scheduler and the servers of MXNet's store.

    What they print comes out line by line, after the name of who printed it. When one fails, the
    others are stopped, and the exit status is that of the one that failed. `python` in COMMAND is
    the Python that runs launch. Example:

    \b
    python -m mgpu_helpers launch -n 2 -s 1 -- python cluster/train.py --epochs 3
    """
    if hasattr(sys.stdout, 'reconfigure'):
        sys.stdout.reconfigure(errors='replace')  # a letter that the terminal does not know
    try:
        with signals_end():
            try:
                cluster = launching.prepare(command, workers, servers, **options)
            except (TypeError, ValueError, OSError, ImportError) as error:
                _refuse(error)
            was_up = launching.run(cluster, show)
    except ProcessFailed as error:
        status = status_of(error)
        meant = ''
        if error.status > 128:  # from a shell, as behind ssh
            with contextlib.suppress(ValueError):
                meant = f' (128 + {error.status - 128}: {signal.Signals(error.status - 128).name})'
        what, _, details = str(error).partition('\n')
        _say(f'Error: {what}{cluster.place(error.name)}{meant}; all were stopped.\n{details}')
        sys.exit(status)
    except TimeoutError as error:
        _say(f'Error: {error}')
        sys.exit(status_of(error))
    except RuntimeError as error:  # somebody registered who should not
        _say(f'Error: {error}')
        sys.exit(1)
    except Ended as error:
        _say(f'Stopped by {error}: nothing is left running.')
        sys.exit(status_of(error))
    if not was_up:
        _say(
            'Warning: the workers ended well, but no store that connects them was ever up: each '
            "worked alone. Does the command call mx.kv.create with a kind that begins with 'dist_'?"
        )


@click.command(context_settings=SETTINGS)
@_options
@click.option(
    '--index',
    type=int,
    required=True,
    envvar=['JOB_COMPLETION_INDEX', 'SLURM_PROCID'],
    show_envvar=True,
    help='Which process this is: 0 is the scheduler, then servers, then workers.',
)
@click.option('--root', required=True, metavar='HOST', help='Name or address of where index 0 is.')
@click.option('--port', type=int, required=True, help='Of index 0; index I has PORT + I.')
def join(command: tuple[str, ...], connect_timeout: float, **options: Any) -> None:
    """Be one process of a cluster that another system starts, such as Slurm or Kubernetes.

    To be started 1 + SERVERS + WORKERS times, with the indices 0, 1, ...; workers become COMMAND.
    Example, the last of four:

    \b
    python -m mgpu_helpers join -n 2 -s 1 --index 3 --root node1 --port 9090 -- python train.py
    """
    try:
        program, env = joining.prepare(command, patience=connect_timeout, **options)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execvpe(program[0], program, os.environ | env)  # we become it, and do not come back
    except (TypeError, ValueError, OSError) as error:
        _refuse(error)
