"""A Chromium that tests drive by the DevTools protocol, and a JupyterLab for it to open."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import websocket
from checkouts import ROOT

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
# No window, nothing fetched or synchronised on its own; /dev/shm may be tiny in a container.
FLAGS = (
    '--headless --disable-gpu --hide-scrollbars --no-first-run --disable-sync --disable-quic '
    '--disable-background-networking --disable-component-update --disable-dev-shm-usage '
    '--remote-debugging-port=0'
).split()
# What `make lab` gives the server, apart from what opens a window.
OPTIONS = (
    '--no-browser --allow-root --ServerApp.ip=127.0.0.1 --ServerApp.port=0 '
    '--LabApp.expose_app_in_browser=True'
).split()
SETTINGS = {
    'apputils-extension/themes': {'theme': 'JupyterLab Light'},
    'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False},
    'notebook-extension/tracker': {'windowingMode': 'none'},  # all cells, also below
}


class Browser:
    """A running Chromium with one tab; ``folder`` keeps its profile."""

    def __init__(self, folder):
        names = [os.environ['CHROME']] if os.environ.get('CHROME') else NAMES
        if not (program := next(filter(None, map(shutil.which, names)), None)):
            pytest.skip(f'no {names[0]}: apt-get install chromium, or CHROME=/path/to/chrome')
        # Chromium refuses root its sandbox; our pages come from this checkout.
        flags = [*FLAGS, f'--user-data-dir={folder}'] + ['--no-sandbox'] * (os.geteuid() == 0)
        with open(folder / 'log', 'wb') as log:
            self.process = subprocess.Popen([program, *flags], stdout=log, stderr=log)
        file, deadline = folder / 'DevToolsActivePort', time.monotonic() + 240
        while not (file.exists() and file.read_text().count('\n')):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                pytest.fail('Chromium did not start:\n' + (folder / 'log').read_text()[-2000:])
            time.sleep(0.05)
        address = 'ws://127.0.0.1:{}{}'.format(*file.read_text().split())
        options = {'suppress_origin': True, 'http_no_proxy': ['127.0.0.1']}
        self.socket = websocket.create_connection(address, timeout=60, **options)
        self.asked, self.tab = 0, {}
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        self.tab = {'sessionId': session}

    def call(self, method, **parameters):
        """Send a command and return its result; events that come before it are passed over."""
        self.asked += 1
        message = {'id': self.asked, 'method': method, 'params': parameters, **self.tab}
        self.socket.send(json.dumps(message))
        while (answer := json.loads(self.socket.recv())).get('id') != self.asked:
            pass
        if 'error' in answer:
            raise RuntimeError(f'{method}: {answer["error"]}')
        return answer['result']

    def open(self, url, width=1200, height=900):
        """Show a page, light, in a window of this size, and wait until it is all loaded."""
        self.width = width
        self.resize(height)
        self.prefer('light')
        assert not self.call('Page.navigate', url=url).get('errorText'), url
        self.wait_for('document.readyState === "complete"')

    def close(self):
        self.tab = {}  # the command is for the whole of it
        with contextlib.suppress(Exception):
            self.call('Browser.close')
            self.process.wait(10)
        self.process.kill()
        self.process.wait()
        self.socket.close()

    def resize(self, height):
        size = {'width': self.width, 'height': height, 'deviceScaleFactor': 1, 'mobile': False}
        self.call('Emulation.setDeviceMetricsOverride', **size)

    def prefer(self, theme):
        scheme = {'name': 'prefers-color-scheme', 'value': theme}
        self.call('Emulation.setEmulatedMedia', features=[scheme])

    def ask(self, script):
        """Run a JavaScript expression in the page, and return its value."""
        options = {'returnByValue': True, 'awaitPromise': True}
        answer = self.call('Runtime.evaluate', expression=script, **options)
        if 'exceptionDetails' in answer:
            raise RuntimeError(answer['exceptionDetails'])
        return answer['result'].get('value')

    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(RuntimeError):  # a page that is being loaded has no answers
                if self.ask(condition):
                    return
            time.sleep(0.05)
        pytest.fail(f'not within {seconds} s: {condition}')

    def picture(self, path, height, scale=1):
        """Save what a window of this height shows, as PNG."""
        self.resize(height)
        clip = {'x': 0, 'y': 0, 'width': self.width, 'height': height, 'scale': scale}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call('Page.captureScreenshot', clip=clip)['data']))


@contextlib.contextmanager
def lab(folder, chapter, ours=SETTINGS, layout=None):
    """A server over a copy of a chapter and of the figures; gives where the chapter opens.

    ``ours`` are a user's settings, and ``layout`` is a file with a layout to begin with.
    """
    root, settings, home = folder / 'a course', folder / 'settings', folder / 'home'
    for name, values in ours.items():
        file = settings / f'@jupyterlab/{name}.jupyterlab-settings'
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    shutil.copytree(ROOT / 'img', root / 'img')
    (root / 'notebooks').mkdir()
    shutil.copy(ROOT / 'notebooks' / chapter, root / 'notebooks')
    home.mkdir()  # nothing of the caller's own Jupyter
    if layout:
        shutil.copy(layout, home)
    names = ('JUPYTER_CONFIG_DIR', 'JUPYTER_DATA_DIR', 'JUPYTER_RUNTIME_DIR', 'IPYTHONDIR')
    env = {**os.environ, **{name: str(home / name.lower()) for name in names}}
    command = [sys.executable, '-m', 'jupyterlab', *OPTIONS, f'--ServerApp.root_dir={root}']
    command += [f'--config={ROOT / "tools/lab/config.py"}']
    command += [f'--LabApp.user_settings_dir={settings}', f'--LabApp.workspaces_dir={home}']
    with open(folder / 'log', 'wb') as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=root)
    try:
        deadline = time.monotonic() + 240
        while not (found := list(home.glob('jupyter_runtime_dir/jpserver-*.json'))):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail('JupyterLab did not start:\n' + (folder / 'log').read_text()[-3000:])
            time.sleep(0.1)
        time.sleep(0.1)  # the file is there a moment before it is complete
        server = json.loads(found[0].read_text())
        yield f'{server["url"]}lab/tree/notebooks/{chapter}?token={server["token"]}' + '&reset' * (
            not layout
        )
    finally:
        process.terminate()  # ends its kernels, too
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
