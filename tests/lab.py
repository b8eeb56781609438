"""A JupyterLab for tests: a server of its own, settings of its own, a copy of a chapter."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# What `make lab` gives the server, apart from what opens a window.
OPTIONS = (
    '--no-browser --allow-root --ServerApp.ip=127.0.0.1 --ServerApp.port=0 '
    '--FileContentsManager.preferred_dir=notebooks '
    '--MappingKernelManager.transport_encryption=auto --LabApp.expose_app_in_browser=True'
).split()
SETTINGS = {
    'apputils-extension/themes': {'theme': 'JupyterLab Light'},
    'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False},
    'notebook-extension/tracker': {'windowingMode': 'none'},  # all cells, also below
}


class Lab:
    """A running server over a copy of ``notebooks/<chapter>`` and of the figures."""

    THEME = 'jupyterapp.commands.execute("apputils:change-theme", {theme: "%s"}).then(() => true)'

    def __init__(self, folder, chapter):
        self.chapter, settings = chapter, folder / 'settings'
        for name, values in SETTINGS.items():
            file = settings / f'@jupyterlab/{name}.jupyterlab-settings'
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(values))
        root = folder / 'a course'
        shutil.copytree(ROOT / 'img', root / 'img')
        (root / 'notebooks').mkdir()
        shutil.copy(ROOT / 'notebooks' / chapter, root / 'notebooks')
        home = folder / 'home'  # nothing of the caller's own Jupyter
        home.mkdir()
        names = ('JUPYTER_CONFIG_DIR', 'JUPYTER_DATA_DIR', 'JUPYTER_RUNTIME_DIR', 'IPYTHONDIR')
        env = {**os.environ, **{name: str(home / name.lower()) for name in names}}
        runtime = home / 'jupyter_runtime_dir'
        command = [sys.executable, '-m', 'jupyterlab', *OPTIONS, f'--ServerApp.root_dir={root}']
        command += [f'--LabApp.user_settings_dir={settings}']
        command += [f'--LabApp.workspaces_dir={folder / "workspaces"}']
        self.log = folder / 'lab.log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=root)
        deadline = time.monotonic() + 60
        while not (found := list(runtime.glob('jpserver-*.json'))):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                pytest.fail('JupyterLab did not start:\n' + self.log.read_text()[-3000:])
            time.sleep(0.1)
        time.sleep(0.1)
        self.server = json.loads(found[0].read_text())

    def address(self):
        """Where the chapter opens, in a workspace in which nothing is open yet."""
        return (
            f'{self.server["url"]}lab/workspaces/w{time.time_ns()}/tree/notebooks/{self.chapter}'
            f'?token={self.server["token"]}&reset'
        )

    def close(self):
        self.process.terminate()  # ends its kernels, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        self.process.kill()
        self.process.wait()
