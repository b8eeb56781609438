"""Commands on other machines, through ssh: they end when we do."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from ..processes import Group, ProcessFailed
from ..processes.guard import LEASH
from .probe import MARK

# What another machine is told of our environment: what says which programs and libraries are meant,
# and the settings of MXNet, of its store and of this course.
PASSED = ('LD_LIBRARY_PATH', 'NO_PROXY', 'PATH', 'TZ')
PREFIXES = ('DMLC_', 'MGPU_', 'MXNET_', 'NVIDIA_', 'OMP_', 'PS_', 'PYTHON')
NO_CONNECTION = 255  # ssh's own status; all others are those of the command


def passed_on() -> dict[str, str]:
    """Give the variables of this process that processes on other machines get, too."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in PASSED or name.startswith(PREFIXES)
    }


def command_on(
    host: str,
    command: Sequence[str],
    env: Mapping[str, str],
    ssh: str = 'ssh',
    python: str = 'python3',
    connect_timeout: float = 10,
) -> list[str]:
    """Give the command that runs a command on another machine, in the folder of the same name.

    ``env`` is its environment besides what ssh gives. It is to be started with a standard input
    that stays open: when that closes, the command there and all that it started are killed.

    >>> command_on('b', ['hostname'], {}, ssh='ssh -p 2222')[:4]
    ['ssh', '-p', '2222', '-T']
    """
    set_there = [f'{name}={value}' for name, value in env.items()]
    # In csh a quoted text ends with its line, and the leash has several.
    leash = f'exec(bytes.fromhex("{LEASH.encode().hex()}"))'
    there = shlex.join(['env', *set_there, python, '-I', '-S', '-c', leash, '0', *command])
    # Not `exec`: where a command dies by a signal, ssh only says 255, and this shell 128 + n.
    script = f'cd {shlex.quote(os.getcwd())} && {there}; exit $?'
    options = {
        'BatchMode': 'yes',  # never ask for a password: there is nobody to type it
        'ConnectTimeout': max(1, math.ceil(min(10, connect_timeout))),
        # A machine that vanishes says nothing. After 45 seconds without an answer ssh ends.
        'ServerAliveInterval': 15,
        'ServerAliveCountMax': 3,
        'ControlMaster': 'no',  # no connection of ours stays behind to be shared
    }
    chosen = [f'-o{name}={value}' for name, value in options.items()]
    # The login shell may be any; what it is given is one word after `sh -c`.
    return [*shlex.split(ssh), '-T', *chosen, host, shlex.join(['sh', '-c', script])]


def ask(
    questions: Mapping[str, dict[str, Any]],
    ssh: str = 'ssh',
    python: str = 'python3',
    limit: float = 60,
) -> dict[str, dict[str, Any]]:
    """Ask other machines, all at once, whether they can take their part; give what each answered.

    ``questions`` has for each host's name the arguments of ``probe.look`` there. An ``OSError``
    says which cannot be reached, does not answer within ``limit`` seconds, or cannot take part.
    """
    said: dict[str, list[str]] = {host: [] for host in questions}
    with Group() as group:
        for host, question in questions.items():
            command = [python, '-m', 'mgpu_helpers.cluster.probe', json.dumps(question)]
            line = command_on(host, command, passed_on(), ssh, python, limit)
            group.start(host, line, open_input=True)
        try:
            group.wait(on_line=lambda host, text: said[host].append(text), timeout=limit)
        except ProcessFailed as error:
            raise OSError(_reason(error.name, error.status, said[error.name])) from error
        except TimeoutError as error:
            silent = [h for h in questions if not any(t.startswith(MARK) for t in said[h])]
            raise OSError(
                f'{", ".join(silent)} did not answer within {limit:g} seconds: nothing was started'
            ) from error
    found = {}
    for host, lines in said.items():
        answers = [json.loads(t.removeprefix(MARK)) for t in lines if t.startswith(MARK)]
        if not answers:
            raise OSError(_reason(host, 0, lines))
        if 'error' in answers[0]:
            raise OSError(f'{host} cannot take part: {answers[0]["error"]}')
        found[host] = answers[0]
    return found


def _reason(host: str, status: int, lines: Sequence[str]) -> str:
    last = next((line for line in reversed(lines) if line.strip()), f'status {status}').strip()
    if status == NO_CONNECTION:
        return (
            f'{host} cannot be reached through ssh: {last}. What must work without a question: '
            f'ssh -o BatchMode=yes {host} true'
        )
    return (
        f'{host} cannot take part: {last}. It needs the same folder ({os.getcwd()}), and in it the '
        'same Python with the course installed (--python says where else it is)'
    )
