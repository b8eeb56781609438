"""A Chromium that tests drive by the DevTools protocol, and a JupyterLab for it to open."""

import base64
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import urllib.request

import psutil
import pytest
import websocket
from checkouts import ROOT, environment

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
# No window, nothing fetched or synchronised on its own; /dev/shm may be tiny in a container.
FLAGS = (
    '--headless --disable-gpu --hide-scrollbars --no-first-run --disable-sync --disable-quic '
    '--disable-background-networking --disable-component-update --disable-dev-shm-usage '
    '--remote-debugging-port=0'
).split()
ALL_CELLS = {'windowingMode': 'none'}  # also those below; all else is as `make setup` leaves it
# Before anything else of a page: note what it complains about, or may not fetch; no motion.
LISTEN = """window.said = [];
console.error = (...words) => said.push('console: ' + words.join(' '));
const still = new CSSStyleSheet();
still.replaceSync('* { transition: none !important; animation: none !important; }');
document.adoptedStyleSheets = [still];
addEventListener('securitypolicyviolation', (e) => said.push('asks elsewhere: ' + e.blockedURI));
addEventListener('unhandledrejection', (e) => said.push('rejected: ' + e.reason));
addEventListener('error', (e) => said.push(
  'error: ' + (e.message || e.target.src || e.target.href)), true);"""


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
        self.call('Page.enable')
        self.call('Page.addScriptToEvaluateOnNewDocument', source=LISTEN)

    def call(self, method, **parameters):
        """Send a command and return its result; skip events that arrive before it."""
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

    def press(self, key, **options):
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, code=key, **options)

    def picture(self, path, height, scale=1):
        """Save what a window of this height shows, as PNG."""
        self.resize(height)
        clip = {'x': 0, 'y': 0, 'width': self.width, 'height': height, 'scale': scale}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call('Page.captureScreenshot', clip=clip)['data']))


def luminance(color):
    """Relative luminance of a CSS color, as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r'\d+', color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    """Of two luminances, by WCAG 2, from 1 to 21."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@contextlib.contextmanager
def lab(folder, chapter):
    """Run `make lab` on a copy of a chapter, its exercises and figures; yield the address."""
    root, settings, home = folder / 'a course', folder / 'settings', folder / 'home'
    shutil.copytree(ROOT / 'img', root / 'img')
    for part in ('notebooks', 'exercises'):
        (root / part).mkdir()
        shutil.copy(ROOT / part / chapter, root / part)
    home.mkdir()  # nothing of the caller's own Jupyter
    shutil.copy(ROOT / 'tools/lab/default-37a8.jupyterlab-workspace', home)
    file = settings / '@jupyterlab/notebook-extension/tracker.jupyterlab-settings'
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(ALL_CELLS))
    options = ['--no-browser', '--ServerApp.port=0', f'--ServerApp.root_dir={root}']
    options += [f'--LabApp.user_settings_dir={settings}', f'--LabApp.workspaces_dir={home}']
    options += ['--LabApp.expose_app_in_browser=True']
    names = ('JUPYTER_CONFIG_DIR', 'JUPYTER_DATA_DIR', 'JUPYTER_RUNTIME_DIR', 'IPYTHONDIR')
    env = environment(**{name: home / name.lower() for name in names})
    command, log = ['make', 'lab', f'LAB_ARGS={shlex.join(options)}'], folder / 'log'
    with log.open('wb') as file:
        to = {'stdout': file, 'stderr': file, 'start_new_session': True}
        process = subprocess.Popen(command, cwd=ROOT, env=env, **to)
    try:
        address, deadline = '', time.monotonic() + 240
        while not address:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail('JupyterLab did not start:\n' + log.read_text()[-3000:])
            time.sleep(0.1)
            if match := re.search(r'http://127\S+', log.read_text()):
                with contextlib.suppress(OSError):  # it says so a moment before it listens
                    address = urllib.request.urlopen(match[0], timeout=60).url and match[0]
        yield address
    finally:
        below = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGTERM)
        left = psutil.wait_procs(below, timeout=30)[1]
        process.wait()
    assert not left  # its kernels have ended, too
