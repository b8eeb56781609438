"""What the tests of the data have in common: the real files, mirrors on 127.0.0.1, processes."""

import contextlib
import itertools
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mgpu_helpers.data import published, sets

ROOT = Path(__file__).parent.parent
# Where the caller of pytest has the files; looked up now, because the tests move MXNET_HOME.
CALLERS = {name: published.folder_of(name) for name in published.FILES}
IMAGES = 'train-images-idx3-ubyte.gz'
LABELS = 't10k-labels-idx1-ubyte.gz'


def real_files(name):
    """The four verified files of the caller's MXNET_HOME, or skip."""
    content = published.verified(name, CALLERS[name])
    if len(content) < len(published.FILES[name]):
        pytest.skip(f'no real data: {CALLERS[name]} is not complete')
    return content


@pytest.fixture(scope='session')
def mnist_files():
    return real_files('mnist')


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty MXNET_HOME, no mirror that answers, and nothing kept from an earlier test."""
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'home'))
    monkeypatch.setenv('NO_PROXY', '127.0.0.1')
    monkeypatch.setattr(sets, '_kept', {})
    monkeypatch.setenv(sets.STOOD_IN, '')  # which it puts back
    with dead_mirror() as address:
        monkeypatch.setenv('MGPU_DATA_MIRRORS', address)
        yield tmp_path / 'home'


@pytest.fixture
def full_disk():
    """A limit on the size of files, 256 KiB, stands for it: the write itself fails."""
    resource = pytest.importorskip('resource')
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def put(home, name, content):
    """Write files into a cache; return its folder."""
    folder = home / 'datasets' / name
    folder.mkdir(parents=True, exist_ok=True)
    for filename, contents in content.items():
        (folder / filename).write_bytes(contents)
    return folder


def check_good(folder, name):
    """The folder holds the four published files, readable for all, and nothing else is in it."""
    good = set(published.verified(name, folder))
    assert {p.name for p in folder.iterdir()} == good == set(published.FILES[name])
    assert all(p.stat().st_mode & 0o444 == 0o444 for p in folder.iterdir())


@contextlib.contextmanager
def mirror(content, piece=None, limit=30):
    """A web server with these files; with `piece`, it sends so many bytes every 20 ms.

    Gives its address, with the set's name as a folder, and a list of what it was asked for. In
    another folder, it answers HEAD well, and GET in the way that the folder says. No answer takes
    more than ``limit`` seconds, so that whoever would listen for ever fails.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.wfile.write(b'HTTP/1.0 200 OK\r\n\r\n')

        def do_GET(self):
            asked.append(self.path)
            kind, name = self.path.split('/')[-2:]
            kind = 'good' if kind in published.FILES else kind
            kind, late = kind if name in content else 'gone', time.monotonic() + limit
            with contextlib.suppress(OSError):
                for part in answer(kind, content.get(name, b''), self.path.encode(), piece):
                    if over or time.monotonic() > late:
                        break
                    self.wfile.write(part)

    asked, over = [], []
    with serving(Handler) as address:
        yield address + '{name}', asked
        over.append(True)


def slowly(content, piece):
    """Cut bytes into pieces, of which one comes every 20 ms."""
    for start in range(0, len(content), piece):
        time.sleep(0.02)
        yield content[start : start + piece]


def answer(kind, good, path, piece=None):
    """What a server sends that is good, hostile or broken."""
    ok, moved = b'HTTP/1.1 200 OK\r\n', b'HTTP/1.1 302 Found\r\nLocation: '
    dripping = (bytes(1) for _ in iter(lambda: time.sleep(0.05), 0))
    zeros = itertools.repeat(bytes(1 << 16), 6000)  # 390 MB: as good as endless, and a test ends
    return {
        'good': itertools.chain([ok + b'\r\n'], slowly(good, piece) if piece else [good]),
        'endless': itertools.chain([ok + b'\r\n', good], zeros),
        'wrong': [ok + b'\r\n', good[:-1] + b'?'],
        'cut': [ok, b'Content-Length: %d\r\n\r\n' % len(good), good[: len(good) // 2]],
        'silent': itertools.chain([ok], (b'' for _ in iter(lambda: time.sleep(0.05), 0))),
        'drips': itertools.chain([ok + b'\r\n'], dripping),
        'circle': [moved + path + b'\r\n\r\n'],
        'gone': [b'HTTP/1.1 404 Not Found\r\n'],
    }[kind]


@contextlib.contextmanager
def serving(handler):
    """A web server on 127.0.0.1; its address."""
    handler.log_message = lambda *_: None
    server = ThreadingHTTPServer(('127.0.0.1', 0), handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/'
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def dead_mirror():
    """The address of a port that is taken but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        yield f'http://127.0.0.1:{taken.getsockname()[1]}/'


def start(*words, **env):
    """Start Python in a process of its own, with our package and the tests to be found."""
    env = os.environ | {'PYTHONPATH': os.pathsep.join([str(ROOT), str(ROOT / 'tests')])} | env
    pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE}
    return subprocess.Popen([sys.executable, *words], env=env, text=True, **pipes)


def finish(process):
    """Wait for it; its output and its messages. Fails if it failed."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    return out, err
