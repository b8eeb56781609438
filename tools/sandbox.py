"""Run our programs that execute students' code, isolated and within limits.

If the system has ``unshare``, a student's code has no network, sees no other processes, and may
write only to an empty folder in memory. The teacher's files look empty to it: the home folder, the
course with its solutions, the submissions, temporary files.
Otherwise it has the permissions of the user who grades, and only time and memory are limited.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from mgpu_helpers.processes import leashed

ROOT = Path(__file__).resolve().parent.parent
# The environment variables that a program may see; MY_PAT or AUTHORIZATION could be secrets, too.
SHOWN = (
    'PATH LANG LC_ALL TZ LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES MXNET_HOME OMP_NUM_THREADS'.split()
)
MEMORY, PROCESSES = 4 << 30, 200  # limits: bytes of all its processes together, and their number
COPIED = 'mgpu_helpers', 'exercises/mgpu_exercises', 'tools'
NOT_COPIED = shutil.ignore_patterns('__pycache__', 'locks', 'lab', 'kernels', '*.sh', '*.j2')
LONGEST = 32 << 20  # bytes of a message; an answer with a network's parameters needs under 1 MB
# Root of one user namespace makes the mounts; root of the next one cannot undo them.
ENTER = r"""
ip link set lo up
findmnt -rno TARGET | grep -Ev '^/(proc|sys|dev)' | while read -r target; do
    mount -o remount,bind,ro "$(printf %b "$target")" 2>/dev/null
done
mount -t tmpfs none /dev/shm
folder=$1 hidden= i=0; shift
while [ "$1" != -- ]; do hidden="$hidden $i"; eval "h$i=\$1"; i=$((i + 1)); shift; done
shift; n=0
while [ "$1" != -- ]; do  # what is to be seen within what is hidden waits aside
    mkdir "/dev/shm/$n" && mount -n --rbind "$1" "/dev/shm/$n" || exit
    eval "s$n=\$1"; n=$((n + 1)); shift
done
shift
for i in $hidden; do eval "mount -t tmpfs -o size=1m none \"\$h$i\"" || exit; done
i=0
while [ $i -lt $n ]; do
    eval "mkdir -p \"\$s$i\" && mount -n --move /dev/shm/$i \"\$s$i\"" || exit
    rmdir /dev/shm/$i; i=$((i + 1))
done
for i in $hidden; do eval "mount -o remount,ro \"\$h$i\""; done
mount -t tmpfs -o size=2g none "$folder" && cd "$folder" || exit
exec unshare -rm "$@"
"""


class Ended(Exception):
    """A program ended before it was done; the message says how."""


def isolation(course, hidden, shown):
    """Return the command prefix that isolates a program in a course, or [] if that is impossible.

    In the ``hidden`` folders, a program sees only the ``shown`` ones.
    """
    hidden = [p for p in hidden if not any(p != q and p.is_relative_to(q) for q in hidden)]
    inside = {p for p in (course.top, *shown) if any(p.is_relative_to(q) for q in hidden)}
    inside = [p for p in inside if not any(p != q and p.is_relative_to(q) for q in inside)]
    prefix = ['unshare', '-rnmpf', '--kill-child', '--mount-proc', 'sh', '-c', ENTER, 'sh']
    prefix += map(str, [course.folder, *hidden, '--', *inside, '--'])
    with suppress(OSError, subprocess.SubprocessError):
        if not subprocess.run([*prefix, 'true'], capture_output=True, timeout=60).returncode:
            return prefix
    return []


class Course:
    """A copy of our packages for one submission, with an empty folder and its own files."""

    python = sys.executable  # or another environment's Python, set before a submission

    def __enter__(self):
        self.top = Path(tempfile.mkdtemp(prefix='mgpu-grade-')).resolve()
        for name in COPIED:
            shutil.copytree(ROOT / name, self.top / name, ignore=NOT_COPIED)
        self.folder, self.given = self.top / 'empty', self.top / 'given'
        self.folder.mkdir()
        self.given.mkdir()
        return self

    def __exit__(self, *error):
        # Not shutil.rmtree: it fails on 1,500 nested folders.
        for command in ['chmod', '-R', 'u+rwX'], ['rm', '-rf']:
            subprocess.run([*command, self.top], capture_output=True)


class Program:
    """A script in ``tools`` that runs in a sandbox and sends messages.

    Its messages are lines on its standard output: a secret token, a space, JSON. A program that
    writes anything else, or out of turn, is killed.
    """

    lasting = set()  # ids of our own processes, which run no student's code

    def __init__(self, script, course, prefix):
        self.token, self.rest = os.urandom(16).hex().encode(), bytearray()
        self.checked = 0.0
        command = [*prefix, course.python, str(course.top / 'tools' / script)]
        environment = {name: os.environ[name] for name in SHOWN if name in os.environ}
        environment |= dict.fromkeys(('HOME', 'IPYTHONDIR', 'TMPDIR'), '.')
        environment |= {'PYTHONPATH': f'{course.top}:{course.top}/exercises'}
        environment |= {'PYTHONDONTWRITEBYTECODE': '1'}
        self.process = subprocess.Popen(
            leashed(command, signal.SIGKILL),  # killed even if we are killed
            cwd=course.folder, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.set_blocking(self.process.stdin.fileno(), False)
        self.send({'token': self.token.decode()})

    def send(self, message, deadline=None):
        """Send a line; wait at most until the deadline for the program to read it."""
        line, pipe = json.dumps(message).encode() + b'\n', self.process.stdin.fileno()
        with suppress(BrokenPipeError):  # it has ended, as the next receive will report
            while line:
                if deadline and time.monotonic() > deadline:
                    raise Ended('ran out of time')
                if select.select([], [pipe], [], 0.3)[1]:
                    line = line[os.write(pipe, line) :]

    def receive(self, deadline):
        """Return the program's next message; raise ``Ended`` if there is none."""
        output = self.process.stdout.fileno()
        while b'\n' not in self.rest:
            if time.monotonic() > deadline:
                raise Ended('ran out of time')
            if time.monotonic() > self.checked + 0.3:
                check_resources()
                self.checked = time.monotonic()
            if select.select([output], [], [], 0.3)[0]:
                if not (piece := os.read(output, 1 << 20)):
                    raise Ended('ended the process')
                self.rest += piece
            if len(self.rest) > LONGEST or not self.rest.startswith(self.token[: len(self.rest)]):
                raise Ended('wrote to the results')
        line, _, self.rest = self.rest.partition(b'\n')
        sender, _, message = line.partition(b' ')
        try:
            if sender == self.token and isinstance(message := json.loads(message), dict):
                return message
        except (ValueError, RecursionError):
            pass
        raise Ended('wrote to the results')

    def below(self):
        """Return all processes that we have started, except the lasting ones."""
        return [p for p in psutil.Process().children(recursive=True) if p.pid not in self.lasting]

    def end_all_but(self, kept):
        """Kill all processes that we have started, except those with the ids in ``kept``."""
        while children := [child for child in self.below() if child.pid not in kept]:
            for child in children:
                with suppress(psutil.Error):
                    child.kill()
            psutil.wait_procs(children, timeout=0.5)
            if all(not child.is_running() or child.status() == 'zombie' for child in children):
                break

    def stop(self):
        """Kill the program and all processes that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.lasting.discard(self.process.pid)
        self.end_all_but(())
        self.process.wait()
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()


def check_resources():
    """Raise ``Ended`` if our child processes exceed the limits."""
    total, children = 0, psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.Error):
            memory = child.memory_info()
            total += memory.rss - getattr(memory, 'shared', 0)
    if total > MEMORY:
        raise Ended(f'used more than {MEMORY >> 30} GB of memory')
    if len(children) > PROCESSES:
        raise Ended(f'started more than {PROCESSES} processes')


def adopt_orphans(adopt=True):
    """Become the parent of our orphaned descendants, so that ``stop`` finds them (Linux)."""
    if shutil.which('unshare'):
        ctypes.CDLL(None).prctl(36, int(adopt))  # PR_SET_CHILD_SUBREAPER
