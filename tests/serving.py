"""What the tests of the data have in common: the real files, mirrors on 127.0.0.1, processes."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mgpu_helpers import data
from mgpu_helpers.data import catalogue

# Where the caller of pytest has the files; looked up now, because the tests move MXNET_HOME.
CALLERS = {name: catalogue.folder_of(name) for name in catalogue.FILES}
IMAGES = 'train-images-idx3-ubyte.gz'
LABELS = 't10k-labels-idx1-ubyte.gz'


def real_files(name):
    """The four verified files of the caller's MXNET_HOME, or skip."""
    content = {}
    for filename, known in catalogue.FILES[name].items():
        found, trouble = catalogue.look(CALLERS[name] / filename, known)
        if found is None:
            pytest.skip(trouble or f'no real data: {CALLERS[name] / filename} is not there')
        content[filename] = found
    return content


@pytest.fixture(scope='session')
def mnist_files():
    return real_files('mnist')


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty MXNET_HOME, no mirror that answers, and nothing kept from an earlier test."""
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'home'))
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    monkeypatch.setattr(data, '_kept', {})
    with dead_mirror() as address:
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        yield tmp_path / 'home'


def put(home, name, content):
    """Write files into a cache; return its folder."""
    folder = home / 'datasets' / name
    folder.mkdir(parents=True, exist_ok=True)
    for filename, found in content.items():
        (folder / filename).write_bytes(found)
    return folder


def check_good(folder, name):
    """The folder holds the four published files, and nothing else is left in it."""
    assert sorted(p.name for p in folder.iterdir()) == sorted(catalogue.FILES[name])
    for filename, known in catalogue.FILES[name].items():
        assert catalogue.look(folder / filename, known)[1] is None
        assert (folder / filename).stat().st_mode & 0o444 == 0o444


@contextlib.contextmanager
def mirror(content, piece=None):
    """A web server with these files; with `piece`, it sends so many bytes every 20 ms."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            found = content.get(self.path.split('/')[-1])
            self.send_response(404 if found is None else 200)
            self.send_header('Content-Length', str(len(found or b'')))
            self.end_headers()
            return found or b''

        def do_GET(self):
            asked.append(self.path)
            found = self.do_HEAD()
            with contextlib.suppress(OSError):  # the client was killed
                for start in range(0, len(found), piece or len(found)):
                    self.wfile.write(found[start : start + (piece or len(found))])
                    time.sleep(0.02 if piece else 0)

        def log_message(self, *args):
            pass

    asked = []
    server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/{{name}}', asked
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def dead_mirror():
    """The address of a port that is taken but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        yield f'http://127.0.0.1:{taken.getsockname()[1]}/'


def start(code, **env):
    """Start Python on `code` in a process of its own, with our package to be found."""
    root = str(Path(__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))
    return subprocess.Popen(
        [sys.executable, '-c', code],
        env={**os.environ, 'PYTHONPATH': path, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    """Wait for it; its output and its messages. Fails if it failed."""
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out, err
