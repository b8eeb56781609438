"""Fixtures that several test files share."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest
from checkouts import ROOT, copy_to
from copied import alone, ranks  # noqa: F401  fixtures
from serving import full_disk, home, mnist_files  # noqa: F401  fixtures

import mgpu_helpers  # noqa: F401  before any test imports MXNet: its settings must come first

# A shell that starts us in the background lets us ignore Ctrl-C, and nohup that the terminal is
# gone; what we start would, too, and tests that interrupt something would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, 'SIGHUP'):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def started(monkeypatch):
    """List the processes that this test has started; at its end, no process and no port is left."""
    name, value = 'MGPU_TEST_MARK', f'{os.getpid()}-{time.monotonic_ns()}'
    monkeypatch.setenv(name, value)  # whatever is started inherits it
    ports = set()

    def running():
        processes = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                environment = process.environ()  # as it was started: ours has no mark
                if environment.get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                    processes.append(process)
                    ports.update(int(environment[key]) for key in ['PORT'] if key in environment)
        return processes

    def left():
        tcp = psutil.net_connections('tcp')
        return running() + [c for c in tcp if c.status == 'LISTEN' and c.laddr.port in ports]

    yield running
    deadline = time.monotonic() + 30  # 5 were once too few, at a load of 24
    while left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left()


@pytest.fixture
def five_minutes():
    """Fail a test that waits forever, as at a pipe that nobody writes to."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail('it waits after five minutes'))
    signal.alarm(300)  # one was too short beside six other test runs
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def popened():
    """List the commands that this process starts during the test."""
    commands, wanted = [], [True]

    def note(event, args):
        if wanted and event == 'subprocess.Popen':
            commands.append(args[1])

    sys.addaudithook(note)  # for ever, so it falls silent
    yield commands
    wanted.clear()


@pytest.fixture(scope='module')
def without_compiler():
    """Processes of these tests do not load PyTorch's compiler: see without_compiler/."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('PYTHONPATH', str(ROOT / 'tests/without_compiler'), prepend=os.pathsep)
        yield


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    """A Chromium that collects its pages' errors and warnings in ``said``."""
    from browser import Browser  # not every environment has what it needs

    browser = Browser(tmp_path_factory.mktemp('chromium'))
    yield browser
    browser.close()


@pytest.fixture(scope='module')
def kernel():
    """Run a cell in a real kernel: returns its reply, what it displayed, and what it printed.

    ``watch`` gets each text that is shown; ``kernel.interrupt()`` is the stop button.
    """
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name='python3')

    def run(cell, watch=lambda text: None):
        shown, printed = [], {'stdout': '', 'stderr': ''}

        def note(message):
            content = message['content']
            if 'data' in content:
                shown.append((message['msg_type'], content['data']))
                watch(content['data'].get('text/plain', ''))
            elif message['msg_type'] == 'stream':
                printed[content['name']] += content['text']
                watch(content['text'])

        reply = client.execute_interactive(textwrap.dedent(cell), output_hook=note, timeout=240)
        return reply['content'], shown, printed

    run.interrupt = manager.interrupt_kernel
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def stub_driver(tmp_path):
    """Build a ``libcuda.so.1`` that reports these GPUs; return its folder.

    Each GPU is ``(name, gibibytes, (major, minor))``; ``cuda`` is its version, times 1,000.
    MXNet's GPU build loads with it, and computes on CPUs.
    """
    compiler = shutil.which('cc') or shutil.which('gcc')
    if compiler is None:
        pytest.skip('no C compiler here')
    # What libmxnet.so of mxnet-cu112 is linked with besides cuDeviceGet: for whoever has a GPU.
    linked = (
        'cuDevicePrimaryCtxRetain cuGetErrorString cuGraphKernelNodeGetParams cuGraphNodeGetType '
        'cuLaunchKernel cuModuleGetFunction cuModuleLoadData cuModuleLoadDataEx cuModuleUnload'
    ).split()

    def build(gpus, cuda=13000):
        listed = ', '.join(f'{{"{gpu}", {gib}ul << 30, {{{a}, {b}}}}}' for gpu, gib, (a, b) in gpus)
        folder = tmp_path / 'driver'
        folder.mkdir(exist_ok=True)
        source, library = folder / 'driver.c', folder / 'libcuda.so.1'
        source.write_text(
            f"""
            #include <string.h>
            static const struct {{ const char *name; unsigned long bytes; int capability[2]; }}
                gpus[16] = {{{listed}}};
            int cuDriverGetVersion(int *v) {{ *v = {cuda}; return 0; }}
            int cuInit(unsigned flags) {{ return {0 if gpus else 100}; }}
            int cuDeviceGetCount(int *n) {{ *n = {len(gpus)}; return 0; }}
            int cuDeviceGet(int *d, int i) {{ *d = i; return 0; }}
            int cuDeviceGetName(char *s, int n, int d) {{ strncpy(s, gpus[d].name, n); return 0; }}
            int cuDeviceTotalMem_v2(unsigned long *b, int d) {{ *b = gpus[d].bytes; return 0; }}
            int cuDeviceGetAttribute(int *v, int a, int d) {{
                *v = gpus[d].capability[a - 75]; return 0; }}
            """
            + '\n'.join(f'int {name}(void) {{ return 100; }}' for name in linked)
        )
        words = [compiler, '-shared', '-fPIC', f'-Wl,-soname,{library.name}', source]
        subprocess.run([*words, '-o', library], check=True)
        return folder

    return build


@pytest.fixture(scope='module')
def copied(tmp_path_factory):
    return copy_to(tmp_path_factory.mktemp('copied') / 'a course')


@pytest.fixture
def checkout(copied):
    """A copy of this checkout in a folder with a space in its name; no setup was there before."""
    for name in ('.venv', '.uv'):
        shutil.rmtree(copied / name, ignore_errors=True)
    return copied


@pytest.fixture(scope='module')
def with_uv():
    """A PATH on which uv and a Python 3.11 are found; skips where `make setup` was not used."""
    places = os.pathsep.join([os.environ['PATH'], str(ROOT / '.uv' / 'bin')])
    if shutil.which('uv', path=places) is None:
        pytest.skip('no uv here: the environment was not made by `make setup`')
    if sys.version_info[:2] != (3, 11):
        pytest.skip('needs Python 3.11')
    return os.pathsep.join([str(Path(sys.base_prefix) / 'bin'), places])


@pytest.fixture
def offline(with_uv, tmp_path):
    """With these a setup ends where the first package would be fetched."""
    nowhere = {'UV_CACHE_DIR': tmp_path / 'cache', 'HTTPS_PROXY': 'http://127.0.0.1:9'}
    return {'PATH': with_uv, 'UV_HTTP_RETRIES': 0, **nowhere}
