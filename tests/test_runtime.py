"""What must be true before MXNet loads, each case in a fresh process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mgpu_helpers import runtime


def python(script, path=(), **environment):
    """Run a script without the settings that this process inherited; give back the process."""
    clean = {k: v for k, v in os.environ.items() if k not in runtime.SETTINGS | runtime.MALLOC}
    clean['PYTHONPATH'] = os.pathsep.join([*map(str, path), *sys.path])
    return subprocess.run(
        [sys.executable, '-c', textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=clean | environment,
    )


def distribution(folder, name, version='1.9.1'):
    """Make Python believe that a distribution is installed: the same two files as a wheel's."""
    info = folder / f'{name.replace("-", "_")}-{version}.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text(f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n')
    return folder


def test_import_loads_nothing_heavy_and_settings_are_there_before_mxnet(tmp_path):
    (tmp_path / 'mxnet.py').touch()  # the real one is imported in test_devices.py
    script = """
        import sys, os, mgpu_helpers
        heavy = ('mxnet', 'numpy', 'matplotlib', 'd2l', 'tqdm')
        print([name for name in heavy if name in sys.modules])
        print(*(os.environ[name] for name in ('OMP_NUM_THREADS', 'MXNET_CPU_TEMP_COPY')))
        import mxnet
    """
    done = python(script, [tmp_path])
    assert (done.stdout, done.stderr) == ('[]\n1 64\n', '')


def test_several_threads_that_the_user_asked_for_end_in_a_warning_and_not_in_a_deadlock():
    script = """
        import mgpu_helpers as mgpu, os
        from mgpu_helpers.gluon import mx, nd
        devices = [mx.cpu(0), mx.cpu(1)]
        replicas = [mgpu.get_params(mgpu.init_params(seed=0), d) for d in devices]
        for _ in range(5):
            mgpu.train_batch(nd.ones((64, 1, 28, 28)), nd.ones(64), replicas, devices, 0.1)
        nd.waitall()
        print(os.environ['OMP_NUM_THREADS'], os.environ.get('MXNET_CPU_TEMP_COPY'))
    """
    done = python(script, OMP_NUM_THREADS='2')
    assert done.stdout == '2 None\n'
    assert 'OMP_NUM_THREADS is 2, so stand-in devices take turns' in done.stderr
    assert 'unset OMP_NUM_THREADS' in done.stderr


def test_memory_is_kept_unless_the_user_decided():
    """A block freed and taken again: kept, its pages cost nothing; given back, they fault anew."""
    script = """
        import mgpu_helpers, ctypes, resource
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p; libc.malloc.argtypes = [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        def once():
            block = libc.malloc(40 << 20); ctypes.memset(block, 1, 40 << 20); libc.free(block)
        once()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5): once()
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    kept = int(python(script).stdout)
    own = {'MALLOC_MMAP_MAX_': '65536', 'MALLOC_MMAP_THRESHOLD_': '131072',
           'MALLOC_TRIM_THRESHOLD_': '131072', 'MALLOC_TOP_PAD_': '131072'}  # fmt: skip
    given_back = int(python(script, **own).stdout)
    assert kept < 100 < given_back


def test_windows_is_not_asked_for_glibc(monkeypatch):
    monkeypatch.setattr(runtime.sys, 'platform', 'win32')
    monkeypatch.setattr(runtime.ctypes, 'CDLL', lambda name: name + '')  # a TypeError, as there
    runtime.prepare()


def test_mxnet_first_is_said_plainly(tmp_path):
    (tmp_path / 'mxnet.py').touch()  # that something of this name was loaded is all that counts
    done = python('import mxnet, mgpu_helpers', [tmp_path])
    assert done.returncode == 0
    assert 'MXNet was imported before mgpu_helpers' in done.stderr
    assert 'Restart the kernel' in done.stderr
    # When the shell has the settings, the order does not matter.
    assert python('import mxnet, mgpu_helpers', [tmp_path], **runtime.SETTINGS).stderr == ''
    both = {'OMP_NUM_THREADS': '2', 'MXNET_CPU_TEMP_COPY': '64'}
    done = python('import mgpu_helpers, mxnet', [tmp_path], **both)
    assert 'may wait for each other for ever' in done.stderr


def test_what_mxnet_cannot_work_beside_is_named(tmp_path):
    both = distribution(distribution(tmp_path / 'both', 'mxnet'), 'mxnet-cu112')
    numpy = distribution(tmp_path / 'numpy', 'numpy', '1.24.0')
    for path, *words in [
        (both, 'mxnet and mxnet-cu112 are both installed', 'pip uninstall -y mxnet mxnet-cu112'),
        (numpy, 'NumPy 1.24.0 is too new for MXNet 1.9.1', 'numpy==1.23.5'),
    ]:
        done = python('import mgpu_helpers, mxnet', [path])
        assert done.returncode == 1 and all(word in done.stderr for word in words)


def test_a_python_without_mxnet_or_without_anything_is_told_so_in_a_sentence(tmp_path):
    """-S leaves site-packages out, and with them what the course has installed."""
    import lazy_loader

    package = Path(runtime.__file__).parent
    found = []
    for folder in (package, Path(lazy_loader.__file__).parent):
        (tmp_path / folder.name).symlink_to(folder)
        done = subprocess.run(
            [sys.executable, '-S', '-c', 'import mgpu_helpers\nimport mxnet'],
            capture_output=True, text=True, timeout=120, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 1
        found.append(done.stderr.strip().splitlines()[-1])
    assert 'is not the Python of the course' in found[0] and "'make setup'" in found[0]
    assert 'ModuleNotFoundError: MXNet is not installed' in found[1] and 'make setup' in found[1]


@pytest.fixture
def gpu_build(tmp_path):
    """The look of mxnet-cu112: its metadata, and a module in place of the library."""
    distribution(tmp_path / 'site', 'mxnet-cu112')
    (tmp_path / 'site' / 'mxnet.py').write_text('__version__ = "1.9.1"\n')
    return tmp_path / 'site'


# Only what the package itself needs, so that the CPU build beside us is not seen.
ONLY = """
    import sys, os
    import importlib.metadata as metadata
    real = metadata.distributions
    metadata.distributions = lambda: (d for d in real() if d.metadata['Name'] != 'mxnet')
"""


def test_gpu_build_without_a_driver_is_explained(gpu_build):
    done = python(ONLY + '    import mgpu_helpers, mxnet', [gpu_build])
    assert done.returncode == 1
    assert 'needs the NVIDIA driver' in done.stderr and 'libcuda.so.1' in done.stderr


def test_gpu_build_loads_nvidias_wheels_in_any_order(gpu_build, stub_driver, compile_c):
    """liba needs libb, and stands before it in the alphabet: both must be there in the end."""
    cuda = gpu_build / 'nvidia'
    for part in ('a_first', 'b_second'):
        (cuda / part / 'lib').mkdir(parents=True)
    second = compile_c('int second(void) { return 2; }', cuda / 'b_second/lib/libsecond.so.11')
    compile_c(
        'int second(void); int first(void) { return second(); }',
        cuda / 'a_first/lib/libfirst.so.11',
        '-L', str(second.parent), '-l:libsecond.so.11',
    )  # fmt: skip
    done = python(
        ONLY + '    import mgpu_helpers, mxnet, ctypes; print(ctypes.CDLL(None).first())',
        [gpu_build],
        LD_LIBRARY_PATH=str(stub_driver([])),
    )
    assert done.stdout.strip() == '2', done.stderr
