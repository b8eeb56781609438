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

# What another machine is told of our environment, name by name (a prefix such as NVIDIA_ takes keys
# along): which programs and libraries are meant, where the data is, how MXNet and its store work.
PASSED = """
    LD_LIBRARY_PATH NO_PROXY PATH TZ PYTHONHASHSEED PYTHONPATH PYTHONUNBUFFERED PYTHONWARNINGS
    MXNET_HOME MGPU_DATA_MIRRORS NVIDIA_TF32_OVERRIDE OMP_NUM_THREADS OMP_PLACES OMP_PROC_BIND
    MXNET_BACKWARD_DO_MIRROR MXNET_CPU_PRIORITY_NTHREADS MXNET_CPU_TEMP_COPY
    MXNET_CPU_WORKER_NTHREADS MXNET_CUDNN_AUTOTUNE_DEFAULT MXNET_ENFORCE_DETERMINISM
    MXNET_ENGINE_TYPE MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN MXNET_EXEC_BULK_EXEC_TRAIN
    MXNET_GPU_COPY_NTHREADS MXNET_GPU_MEM_POOL_RESERVE MXNET_GPU_MEM_POOL_TYPE MXNET_GPU_TEMP_COPY
    MXNET_GPU_WORKER_NTHREADS MXNET_KVSTORE_BIGARRAY_BOUND MXNET_KVSTORE_REDUCTION_NTHREADS
    MXNET_OMP_MAX_THREADS MXNET_SAFE_ACCUMULATION MXNET_UPDATE_ON_KVSTORE MXNET_USE_FUSION
    DMLC_INTERFACE DMLC_PS_VAN_TYPE DMLC_PS_WATER_MARK PS_HEARTBEAT_INTERVAL PS_HEARTBEAT_TIMEOUT
    PS_RESEND PS_RESEND_TIMEOUT PS_VERBOSE
""".split()
NO_CONNECTION = 255  # ssh's own status; all others are those of the command


def passed_on() -> dict[str, str]:
    """Give the variables of this process that processes on other machines get, too."""
    return {name: os.environ[name] for name in PASSED if name in os.environ}


def sent_first(env: Mapping[str, str]) -> bytes:
    """Give the line in which ``command_on`` reads the environment: words for a shell.

    Through standard input, because every user of a machine may read the arguments of its programs.
    """
    words = ''.join(f'export {name}={shlex.quote(value)};' for name, value in env.items())
    line = words.replace('\n', '\'"$mgpu_newline"\'')  # they stand between single quotes
    return os.fsencode(f"mgpu_newline=$(printf '\\nx');mgpu_newline=${{mgpu_newline%x}};{line}\n")


def command_on(
    host: str, command: Sequence[str], ssh: str, python: str, connect_timeout: float
) -> list[str]:
    """Give the command that runs a command on another machine, in the folder of the same name.

    It is to be started with a standard input that begins with ``sent_first`` and stays open: when
    that closes, the command there and all that it started are killed.
    """
    # In csh a quoted text ends with its line, and the leash has several.
    leash = f'exec(bytes.fromhex("{LEASH.encode().hex()}"))'
    there = shlex.join([python, '-I', '-S', '-c', leash, '0', *command])
    # `read` takes one line and not a byte more: the rest of the input is the leash. Not `exec`:
    # where a command dies by a signal, ssh only says 255, and this shell 128 + n.
    script = (
        'IFS= read -r mgpu_line && eval "$mgpu_line" && '
        f'cd {shlex.quote(os.getcwd())} && {there}; exit $?'
    )
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
    return [*shlex.split(ssh), '-T', *chosen, '--', host, shlex.join(['sh', '-c', script])]


def ask(
    questions: Mapping[str, dict[str, Any]], ssh: str, python: str, limit: float
) -> dict[str, dict[str, Any]]:
    """Ask other machines, all at once, whether they can take their part; give the answers, by IP.

    ``questions`` has for each host's name the arguments of ``probe.look`` there. An ``OSError``
    says which cannot be reached, does not answer within ``limit`` seconds, or cannot take part.
    """
    said: dict[str, list[str]] = {host: [] for host in questions}
    with Group() as group:
        for host, question in questions.items():
            command = [python, '-m', 'mgpu_helpers.cluster.probe', json.dumps(question)]
            line = command_on(host, command, ssh, python, limit)
            group.start(host, line, given=sent_first(passed_on()))
        try:
            group.wait(lambda host, text: said[host].append(text), timeout=limit, settle=0)
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
        found[questions[host]['ip']] = answers[0]
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
