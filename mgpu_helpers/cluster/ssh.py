"""Commands on other machines, through ssh: they end when we do."""

from __future__ import annotations

import json
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..processes import Group, ProcessFailed
from ..processes.guard import LEASH
from . import preflight
from .placement import Host

# What another machine is told of our environment, by how a name begins: which programs and
# libraries are meant, where the data is, how MXNet and its store work.
PASSED = (
    *('PATH', 'LD_LIBRARY_PATH', 'PYTHONPATH', 'PYTHONHASHSEED', 'PYTHONUNBUFFERED'),
    *('PYTHONWARNINGS', 'MXNET_', 'MGPU_DATA_', 'OMP_', 'DMLC_', 'PS_', 'NVIDIA_TF32_'),
    *('NO_PROXY', 'TZ'),
)
SECRET = ('KEY', 'TOKEN', 'SECRET', 'PASS')  # no name with one of these goes along
NO_CONNECTION = 255  # ssh's own status; all others are those of the command
OPTIONS: dict[str, object] = {
    'BatchMode': 'yes',  # never ask for a password: there is nobody to type it
    # A machine that vanishes says nothing. After 45 seconds without an answer ssh ends.
    'ServerAliveInterval': 15,
    'ServerAliveCountMax': 3,
    'ControlMaster': 'no',  # no connection of ours stays behind to be shared
}


def goes_along(name: str) -> bool:
    """Tell whether other machines get a variable of our environment."""
    return name.startswith(PASSED) and not any(word in name.upper() for word in SECRET)


@dataclass(frozen=True)
class Way:
    """How other machines are reached: the ssh program with its options, and their Python."""

    ssh: str
    python: str
    connect_timeout: float

    def start(
        self,
        group: Group,
        name: str,
        host: str,
        command: Sequence[str],
        env: Mapping[str, str],
        service: bool = False,
    ) -> None:
        """Start a command on another machine, in the folder of the same name.

        When the connection closes, the command there and all that it started are killed.
        """
        passed = {name: value for name, value in os.environ.items() if goes_along(name)} | dict(env)
        # Through standard input: every user of a machine may read the arguments of its programs.
        exports = (f'export {name}={shlex.quote(value)}\n' for name, value in passed.items())
        given = os.fsencode(''.join(exports))
        # In csh a quoted text ends with its line, and the leash has several.
        leash = f'exec(bytes.fromhex("{LEASH.encode().hex()}"))'
        there = shlex.join([self.python, '-I', '-S', '-c', leash, '0', *command])
        # What follows the exports in the input is the leash. Not `exec`: where a command dies by a
        # signal, ssh only says 255, and this shell 128 + n.
        script = (
            f'eval "$(head -c {len(given)})" && cd {shlex.quote(os.getcwd())} && {there}; exit $?'
        )
        options = OPTIONS | {'ConnectTimeout': max(1, math.ceil(min(10, self.connect_timeout)))}
        chosen = [f'-o{option}={value}' for option, value in options.items()]
        # The login shell may be any; what it is given is one word after `sh -c`.
        line = [*shlex.split(self.ssh), '-T', *chosen, '--', host, shlex.join(['sh', '-c', script])]
        group.start(name, line, service=service, given=given)

    def ask(self, questions: Mapping[Host, dict[str, Any]]) -> dict[Host, dict[str, Any]]:
        """Ask other machines, all at once, whether they can take part; give the answers.

        ``questions`` has for each the arguments of ``preflight.look`` there. An ``OSError`` says
        which cannot be reached, does not answer in time, or cannot take part.
        """
        lines: dict[str, list[str]] = {host.name: [] for host in questions}
        with Group() as group:
            for host, question in questions.items():
                command = [self.python, '-m', preflight.__name__, json.dumps(question)]
                self.start(group, host.name, host.name, command, {})
            limit = self.connect_timeout
            try:
                group.wait(lambda host, text: lines[host].append(text), timeout=limit, settle=0)
            except ProcessFailed as error:
                raise OSError(_reason(error.name, error.status, lines[error.name])) from error
            except TimeoutError as error:
                silent = ', '.join(name for name in lines if not _answer(lines[name]))
                raise OSError(
                    f'{silent} did not answer within {limit:g} seconds: nothing was started'
                ) from error
        answers = {host: _answer(lines[host.name]) for host in questions}
        for host, answer in answers.items():
            if not answer:
                raise OSError(_reason(host.name, 0, lines[host.name]))
            if 'error' in answer:
                raise OSError(f'{host.name} cannot take part: {answer["error"]}')
        return answers


def _answer(lines: Sequence[str]) -> dict[str, Any]:
    parts = (line.partition(preflight.MARK) for line in lines)
    return next((json.loads(text) for before, mark, text in parts if mark and not before), {})


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
