"""A Chromium that tests drive by the DevTools protocol, on a port of 127.0.0.1."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time

import pytest
import websocket

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
# No window, nothing fetched or synchronised on its own; /dev/shm may be tiny in a container.
FLAGS = (
    '--headless --disable-gpu --hide-scrollbars --no-first-run --disable-sync --disable-quic '
    '--disable-background-networking --disable-component-update --disable-dev-shm-usage '
    '--remote-debugging-port=0'
).split()


def find_browser():
    """The path of a Chromium, or skip; $CHROME names one that is elsewhere."""
    named = os.environ.get('CHROME')
    for name in [named] if named else NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip(f'no {named or "Chromium"}: apt-get install chromium, or CHROME=/path/to/chrome')


class Refused(Exception):
    """The browser could not do what it was asked; the message says why."""


class Browser:
    """A running Chromium with one tab; ``folder`` keeps its profile."""

    def __init__(self, folder):
        # Chromium refuses root its sandbox; our pages come from this checkout.
        flags = [*FLAGS, f'--user-data-dir={folder}'] + ['--no-sandbox'] * (os.geteuid() == 0)
        with open(folder / 'log', 'wb') as log:
            self.process = subprocess.Popen([find_browser(), *flags], stdout=log, stderr=log)
        try:
            port, path = self._wait_for(folder / 'DevToolsActivePort').split()
            options = {'suppress_origin': True, 'http_no_proxy': ['127.0.0.1']}
            address = f'ws://127.0.0.1:{port}{path}'
            self.socket = websocket.create_connection(address, timeout=60, **options)
        except BaseException:
            self.process.kill()
            raise
        self.asked, self.tab = 0, {}
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        self.tab = {'sessionId': session}

    def _wait_for(self, file):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            if file.exists() and (text := file.read_text()).count('\n'):
                return text
            time.sleep(0.05)
        pytest.fail('Chromium did not start:\n' + (file.parent / 'log').read_text()[-2000:])

    def call(self, method, **parameters):
        """Send a command and return its result; events that come before it are passed over."""
        self.asked += 1
        message = {'id': self.asked, 'method': method, 'params': parameters, **self.tab}
        self.socket.send(json.dumps(message))
        while (answer := json.loads(self.socket.recv())).get('id') != self.asked:
            pass
        if 'error' in answer:
            raise Refused(f'{method}: {answer["error"]}')
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
        features = [{'name': 'prefers-color-scheme', 'value': theme}]
        self.call('Emulation.setEmulatedMedia', features=features)

    def ask(self, script):
        """Run a JavaScript expression in the page, and return its value."""
        options = {'returnByValue': True, 'awaitPromise': True}
        answer = self.call('Runtime.evaluate', expression=script, **options)
        if 'exceptionDetails' in answer:
            raise Refused(answer['exceptionDetails'])
        return answer['result'].get('value')

    def wait_for(self, condition, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(Refused):  # a page that is being loaded has no answers yet
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
