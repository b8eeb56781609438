"""Start a command as a user does, and look for what it leaves behind."""

import contextlib
import os
import subprocess
import time
import uuid
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
MARK = 'MGPU_TEST_RUN'


class Started:
    """A command in a process of its own, and all that belongs to it."""

    def __init__(self, *command, env=None, **options):
        self.mark = uuid.uuid4().hex
        env = os.environ | {'PYTHONPATH': str(ROOT), MARK: self.mark} | (env or {})
        options = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'cwd': ROOT} | options
        self.process = subprocess.Popen([*map(str, command)], text=True, env=env, **options)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for process in self.living():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def living(self):
        """List what carries our mark, other than the launcher itself."""
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                marked = process.environ().get(MARK) == self.mark
                if marked and process.pid != self.process.pid:
                    processes.append(process)
        return processes

    def line_with(self, text):
        """Read until a line holds a text."""
        for line in self.process.stdout:
            if text in line:
                return line
        raise AssertionError(f'no line with {text!r}: {self.process.stderr.read()}')

    def end(self, seconds=180):
        """Wait for its end; nothing must be left. Returns status, output and errors."""
        out, err = self.process.communicate(timeout=seconds)
        self.nothing_is_left()
        return self.process.returncode, out, err

    def nothing_is_left(self):
        """Raise if a process, or a port at which it listens, outlives the launcher."""
        deadline = time.monotonic() + 30  # 5 were once too few for 14 logins, at a load of 24
        while (left := self.living()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, [process.cmdline() for process in left]
