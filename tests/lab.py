"""A JupyterLab for tests: a server of its own, settings of its own, a copy of a chapter."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
from checkouts import ROOT

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


@contextlib.contextmanager
def lab(folder, chapter):
    """A server over a copy of a chapter and of the figures; gives where the chapter opens."""
    root, settings, home = folder / 'a course', folder / 'settings', folder / 'home'
    for name, values in SETTINGS.items():
        file = settings / f'@jupyterlab/{name}.jupyterlab-settings'
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    shutil.copytree(ROOT / 'img', root / 'img')
    (root / 'notebooks').mkdir()
    shutil.copy(ROOT / 'notebooks' / chapter, root / 'notebooks')
    home.mkdir()  # nothing of the caller's own Jupyter
    names = ('JUPYTER_CONFIG_DIR', 'JUPYTER_DATA_DIR', 'JUPYTER_RUNTIME_DIR', 'IPYTHONDIR')
    env = {**os.environ, **{name: str(home / name.lower()) for name in names}}
    command = [sys.executable, '-m', 'jupyterlab', *OPTIONS, f'--ServerApp.root_dir={root}']
    command += [f'--LabApp.user_settings_dir={settings}', f'--LabApp.workspaces_dir={home}']
    with open(folder / 'log', 'wb') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=root)
    try:
        deadline = time.monotonic() + 60
        while not (found := list(home.glob('jupyter_runtime_dir/jpserver-*.json'))):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail('JupyterLab did not start:\n' + (folder / 'log').read_text()[-3000:])
            time.sleep(0.1)
        time.sleep(0.1)  # the file is there a moment before it is complete
        server = json.loads(found[0].read_text())
        yield f'{server["url"]}lab/tree/notebooks/{chapter}?token={server["token"]}&reset'
    finally:
        process.terminate()  # ends its kernels, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
