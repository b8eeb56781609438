"""What must be true before MXNet loads, each case in a fresh process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import lazy_loader
from examining import python

from mgpu_helpers import runtime


def test_imports_load_nothing_heavy_and_settings_are_there_before_mxnet(tmp_path):
    """The doctor must work where NumPy is broken; the data need it, and nothing else."""
    (tmp_path / 'mxnet.py').touch()  # the real one is imported in test_devices.py
    script = """
        import sys, os, mgpu_helpers.__main__ as commands
        print(*(commands.main.get_command(None, name).name for name in commands.COMMANDS))
        heavy = {'mxnet', 'torch', 'd2l', 'numpy', 'scipy', 'pandas', 'sklearn', 'joblib',
                 'matplotlib', 'tqdm', 'requests', 'jupyter_client'}
        print(heavy & set(sys.modules))
        import mgpu_helpers.data.sets
        print(heavy & set(sys.modules))
        print(*(os.environ[name] for name in ('OMP_NUM_THREADS', 'MXNET_CPU_TEMP_COPY')))
        import mxnet
    """
    done = python(script, [tmp_path])
    assert (done.stdout, done.stderr) == ("data doctor\nset()\n{'numpy'}\n1 64\n", '')


def test_several_threads_that_the_user_asked_for_end_in_a_warning_and_not_in_a_deadlock():
    script = """
        import mgpu_helpers as mgpu, os, sys
        from mgpu_helpers.gluon import mx, nd
        devices = [mx.cpu(0), mx.cpu(1)]
        replicas = [mgpu.get_params(mgpu.init_params(seed=0), d) for d in devices]
        for _ in range(5):
            mgpu.train_batch(nd.ones((64, 1, 28, 28)), nd.ones(64), replicas, devices, 0.1)
        nd.waitall()
        print(os.environ['OMP_NUM_THREADS'], os.environ.get('MXNET_CPU_TEMP_COPY'))
        early = 'sklearn' in sys.modules  # MXNet would import it, and needs it not
        import sklearn.base
        print(early)
    """
    done = python(script, OMP_NUM_THREADS='2')
    assert done.stdout == '2 None\nFalse\n' and 'unset OMP_NUM_THREADS' in done.stderr
    assert 'OMP_NUM_THREADS is 2, so stand-in devices take turns' in done.stderr


def test_a_fault_ends_at_once_and_is_python_s_to_tell_whoever_came_first():
    """MXNet's own handler calls ``exit``, and that may wait for ever."""
    ours, theirs = 'import mgpu_helpers\n', 'import mxnet as mx\n'
    for head in (ours + theirs, theirs + ours):
        for told in ('', 'import faulthandler; faulthandler.enable()\n'):
            done = python(told + head + 'import ctypes; mx.nd.ones(9); ctypes.string_at(0)')
            assert done.returncode == -signal.SIGSEGV, done.stderr
            assert ('Fatal Python error: Segmentation fault' in done.stderr) == bool(told)


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
    own = {'MALLOC_MMAP_MAX_': '65536', 'MALLOC_MMAP_THRESHOLD_': '131072',
           'MALLOC_TRIM_THRESHOLD_': '131072', 'MALLOC_TOP_PAD_': '131072'}  # fmt: skip
    assert int(python(script).stdout) < 100 < int(python(script, **own).stdout)


def test_mxnet_first_is_said_plainly(tmp_path):
    (tmp_path / 'mxnet.py').touch()  # that something of this name was loaded is all that counts
    done = python('import mxnet, mgpu_helpers', [tmp_path])
    assert done.returncode == 0 and 'Restart the kernel' in done.stderr
    assert 'MXNet was imported before mgpu_helpers' in done.stderr
    # When the shell has the settings, the order does not matter.
    assert python('import mxnet, mgpu_helpers', [tmp_path], **runtime.SETTINGS).stderr == ''
    both = {'OMP_NUM_THREADS': '2', 'MXNET_CPU_TEMP_COPY': '64'}
    done = python('import mgpu_helpers, mxnet', [tmp_path], **both)
    assert 'may deadlock' in done.stderr


def test_a_python_without_mxnet_or_without_anything_is_told_so_in_a_sentence(tmp_path):
    """-S leaves site-packages out, and with them what the course has installed."""
    command = [sys.executable, '-S', '-c', 'import mgpu_helpers\nimport mxnet']
    for module, words in (
        (runtime, "is not the course's Python"),
        (lazy_loader, 'ModuleNotFoundError: MXNet is not installed'),
    ):
        folder = Path(module.__file__).parent
        (tmp_path / folder.name).symlink_to(folder)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
        said = done.stderr.strip().splitlines()[-1]
        assert done.returncode == 1 and words in said and 'make setup' in said
