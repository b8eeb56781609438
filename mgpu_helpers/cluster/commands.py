"""``launch`` and ``join`` on the command line: options in, lines, words and an exit status out."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any, NoReturn

import click

from ..processes import ProcessFailed
from . import launching
from .placement import THIS, plan, read_hosts
from .preflight import sentence
from .ssh import Way

BAD_USAGE, TOO_LATE = 2, 124  # the second is what the program `timeout` says
# Everything after the first word that is no option belongs to the command; `--` may stand before.
SETTINGS = dict(
    allow_interspersed_args=False, help_option_names=['-h', '--help'], show_default=True
)
COLOURS = {'scheduler': 'yellow', 'server': 'magenta', 'worker': 'cyan'}


def interrupt(number: int, frame: object) -> NoReturn:
    """Let SIGTERM and SIGHUP end us as Ctrl-C does, so that all is cleaned up."""
    raise KeyboardInterrupt(signal.Signals(number))


def show(name: str, text: str) -> None:
    """Print a line of a process after its name, in a colour where there is a terminal.

    Of a bar that was drawn over and over in one line, only the last one remains.
    """
    colour = None if 'NO_COLOR' not in os.environ else False
    label = click.style(f'[{name}]', fg=COLOURS.get(name.split()[0]))
    click.echo(f'{label} {text.rpartition(chr(13))[2]}', color=colour)


def _leave(text: str, status: int) -> NoReturn:
    with contextlib.suppress(OSError):  # the terminal may be what has gone
        click.echo(text, err=True)
    sys.exit(status)


SECONDS, PORT = click.FloatRange(0, min_open=True), click.IntRange(1)
COMMON = [  # what both commands have
    click.Option(['-n', '--workers'], type=int, required=True, help='How many workers.'),
    click.Option(['-s', '--servers'], type=int, default=1, help='How many servers.'),
    click.Option(
        ['--connect-timeout'], type=SECONDS, default=60, help='Seconds until all have registered.'
    ),
    click.Argument(['command'], nargs=-1, required=True, type=click.UNPROCESSED),
]


@click.command(context_settings=SETTINGS, params=[*COMMON])
@click.option('--hostfile', metavar='FILE', help="Machines, one 'name [slots=N]' per line.")
@click.option('--port', type=PORT, help='Of the scheduler; the others have those that follow.')
@click.option('--timeout', type=SECONDS, metavar='SECONDS', help='Stop all after this time.')
@click.option('--ssh', default='ssh', help='The program, with its options.')
@click.option('--python', help='The Python on other machines, if its path is another.')
def launch(
    command: list[str],
    workers: int,
    servers: int,
    connect_timeout: float,
    hostfile: str | None,
    port: int | None,
    timeout: float | None,
    ssh: str,
    python: str | None,
) -> None:
    """Run COMMAND in several workers, with the scheduler and the servers of MXNet's store.

    What they print comes out line by line, after the name of who printed it. When one fails, the
    others are stopped, and the exit status is that of the one that failed. `python` in COMMAND is
    the Python that runs launch. Example:

    \b
    python -m mgpu_helpers launch -n 2 -s 1 -- python training/train_cluster.py --epochs 3
    """
    if hasattr(sys.stdout, 'reconfigure'):
        sys.stdout.reconfigure(errors='replace')  # a letter that the terminal does not know
    way = Way(ssh, python or sys.executable, connect_timeout)
    try:
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` means it
                signal.signal(number, interrupt)
        try:
            roles = plan(workers, servers, read_hosts(hostfile) if hostfile else [THIS], port)
            roles = launching.place(roles, command, way)
        except (TypeError, ValueError, OSError, ImportError) as error:
            _leave(f'Error: {sentence(error)}', BAD_USAGE)
        was_up = launching.run(roles, command, way, timeout, show)
    except ProcessFailed as error:
        what, _, details = str(error).partition('\n')
        where = {role.name: f' on {role.host.name}' for role in roles}
        what += where[error.name] if len(set(where.values())) > 1 else ''
        number = error.status - 128
        if number in set(signal.Signals):  # from a shell, as behind ssh
            what += f' (128 + {number}: {signal.Signals(number).name})'
        text = f'Error: {what}; all were stopped.\n{details}'
        _leave(text, error.status if error.status > 0 else 128 - error.status)
    except (TimeoutError, RuntimeError) as error:  # the second: somebody registered who should not
        _leave(f'Error: {error}', TOO_LATE if isinstance(error, TimeoutError) else 1)
    except KeyboardInterrupt as error:
        (number,) = error.args
        _leave(f'Stopped by {number.name}: nothing is left running.', 128 + number)
    if not was_up:
        words = 'the workers ended well, but no store that connects them was ever up: each worked '
        words += "alone. Does the command call mx.kv.create with a kind that begins with 'dist_'?"
        click.echo(f'Warning: {words}', err=True)


@click.command(context_settings=SETTINGS, params=[*COMMON])
@click.option(
    '--index',
    type=click.IntRange(0),
    required=True,
    envvar=['JOB_COMPLETION_INDEX', 'SLURM_PROCID'],
    show_envvar=True,
    help='Which process this is: 0 is the scheduler, then servers, then workers.',
)
@click.option('--root', required=True, metavar='HOST', help='Name or address of where index 0 is.')
@click.option('--port', type=PORT, required=True, help='Of index 0; index I has PORT + I.')
def join(**options: Any) -> None:
    """Be one process of a cluster that another system starts, such as Slurm or Kubernetes.

    To be started 1 + SERVERS + WORKERS times, with the indices 0, 1, ...; workers become COMMAND.
    Example, the last of four:

    \b
    python -m mgpu_helpers join -n 2 -s 1 --index 3 --root node1 --port 9090 -- python train.py
    """
    try:
        program, env = launching.joined(**options)
        sys.stdout.flush()
        sys.stderr.flush()
        os.execvpe(program[0], program, os.environ | env)  # we become it, and do not come back
    except (TypeError, ValueError, OSError) as error:
        _leave(f'Error: {sentence(error)}', BAD_USAGE)
