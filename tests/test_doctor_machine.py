"""``doctor`` on a machine where something is wrong: GPUs, settings, data, cores."""

import os
import shutil
import subprocess

import pytest
from examining import bare, check, distribution, examine, rows
from serving import LABELS, put, real_files

from mgpu_helpers import runtime
from mgpu_helpers.doctor import conditions, hardware
from mgpu_helpers.doctor.probes import CUDA_LIBRARIES

A100, H200, K80 = ('NVIDIA A100', 40, (8, 0)), ('NVIDIA H200', 141, (9, 0)), ('K80', 12, (3, 7))
NO_MODULE = {'error': 'ModuleNotFoundError', 'missing': 'torch'}


def test_gpus_and_who_can_use_them(stub_driver, monkeypatch):
    monkeypatch.setenv('LD_LIBRARY_PATH', str(stub_driver([A100, H200, K80])))
    check(rows(hardware.driver)['NVIDIA driver'], 'ok', 'knows CUDA 13.0')
    for_cpus = {'version': '1.9.1', 'cuda': False}
    found = rows(hardware.gpus, mxnet=for_cpus, torch=NO_MODULE)
    about = 'NVIDIA A100, 40 GiB, compute capability 8.0'
    check(found['GPU 0'], 'warning', about, 'its build for GPUs is not', fix='make setup GPU=1')
    check(found['GPU 1'], 'warning', 'NVIDIA H200, 141 GiB, compute capability 9.0',
          'has machine code for 5.0 to 8.9 only', 'chapter 5 (PyTorch) can use it',
          fix='make setup TORCH=1')  # fmt: skip
    check(found['GPU 2'], 'warning', 'it is too old', fix='')
    torch = {'cuda': '13.0', 'gpus': 2, 'capabilities': [[7, 5], [9, 0]]}
    found = rows(hardware.gpus, mxnet=for_cpus, torch=torch)
    check(found['GPU 0'], 'ok', 'PyTorch uses it; MXNet here is the build for CPUs')
    check(found['GPU 1'], 'ok', 'PyTorch (chapter 5) uses it', 'chapters 1 to 4 run on stand-ins')
    found = rows(hardware.gpus, mxnet={'cuda': True}, torch={'cuda': None, 'gpus': 0})
    check(found['GPU 0'], 'ok', 'MXNet has code for it')
    check(found['GPU 1'], 'warning', 'but the PyTorch that is installed does not')


def test_a_driver_that_gives_no_gpu(stub_driver, monkeypatch):
    monkeypatch.setenv('LD_LIBRARY_PATH', str(stub_driver([])))
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '')
    check(rows(hardware.driver)['NVIDIA driver'], 'warning', "CUDA_VISIBLE_DEVICES is ''",
          fix='unset CUDA_VISIBLE_DEVICES')  # fmt: skip
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES')
    row = rows(hardware.driver)['NVIDIA driver']
    assert row.verdict in ('warning', 'failed')  # failed: there is a GPU
    assert 'code 100): there is no GPU that this process may use' in row.found


def test_something_else_in_the_place_of_the_driver(tmp_path, compile_c, monkeypatch):
    compile_c('int nothing(void) { return 0; }', tmp_path / 'libcuda.so.1')
    monkeypatch.setenv('LD_LIBRARY_PATH', str(tmp_path))
    row = rows(hardware.driver)['NVIDIA driver']
    check(row, 'failed', 'no driver that works', 'cuDriverGetVersion')


@pytest.fixture
def machine(tmp_path):
    """A shell in which some folder stands in the place of another, for its processes only."""

    def put(folder, place):
        inside = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        words = ['unshare', '--mount', '--map-root-user', 'sh', '-c', inside, '-', folder, place]
        words = list(map(str, words))
        tried = shutil.which('unshare') and subprocess.run([*words, 'true'], capture_output=True)
        if not tried or tried.returncode:
            pytest.skip('this machine lets nobody mount anything here')
        return words

    return put


def test_a_gpu_on_the_bus_that_no_driver_gives(tmp_path, machine, stub_driver):
    for slot, vendor, kind in (('00', '0x8086', '0x020000'), ('01', '0x10de', '0x030200')):
        folder = tmp_path / 'pci' / f'0000:{slot}:00.0'
        folder.mkdir(parents=True)
        (folder / 'vendor').write_text(f'{vendor}\n')
        (folder / 'class').write_text(f'{kind}\n')
    pci = machine(tmp_path / 'pci', '/sys/bus/pci/devices')
    row = examine('driver', before=pci)['NVIDIA driver']
    check(row, 'warning', 'on the PCI bus (0000:01:00.0)', 'there is no driver')
    row = examine('driver', before=pci, LD_LIBRARY_PATH=str(stub_driver([])))['NVIDIA driver']
    check(row, 'failed', 'code 100', 'On the PCI bus: 0000:01:00.0')


def test_the_gpu_build(tmp_path, compile_c, stub_driver):
    """The look of mxnet-cu112: all of CUDA's libraries, and one that is linked with two of them."""
    site = distribution(tmp_path / 'site', 'mxnet-cu112')
    libraries = {name: site / 'nvidia' / CUDA_LIBRARIES[name] / 'lib' for name in CUDA_LIBRARIES}
    linked = {'libcudnn.so.8': 'one', 'libcudart.so.11.0': 'two'}
    for name, folder in libraries.items():
        folder.mkdir(parents=True, exist_ok=True)
        compile_c(f'int {linked.get(name, "none")}(void) {{ return 1; }}', folder / name)
    (site / 'mxnet').mkdir()
    compile_c(
        'int one(void); int two(void); int m(void) { return one() + two(); }',
        site / 'mxnet' / 'libmxnet.so',
        *(word for name in linked for word in (f'-L{libraries[name]}', f'-l:{name}')),
    )
    (site / 'mxnet' / '__init__.py').write_text(
        'import ctypes, os\n__version__ = "1.9.1"\n'
        'ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libmxnet.so"))\n'
    )
    gpu_build = {'python': bare(tmp_path, 'numpy'), 'path': [site]}

    found = examine('mxnet', 'driver', 'cuda', **gpu_build)
    check(found['MXNet'], 'failed', 'mxnet-cu112 is installed, but does not load', 'libcuda.so.1',
          fix='make setup GPU=0')  # fmt: skip
    check(found['NVIDIA driver'], 'failed', 'MXNet is the build for them', fix='make setup GPU=0')
    check(found['CUDA libraries'], 'ok', *CUDA_LIBRARIES)

    (libraries['libcudnn.so.8'] / 'libcudnn.so.8').unlink()
    old = str(stub_driver([A100], cuda=10020))
    found = examine('mxnet', 'driver', 'cuda', 'gpus', **gpu_build, LD_LIBRARY_PATH=old)
    check(found['CUDA libraries'], 'failed', 'missing: libcudnn.so.8; found: libcublas.so.11',
          fix='rm -rf .venv && make setup GPU=1')  # fmt: skip
    check(found['MXNet'], 'failed', 'libcudnn.so.8 is missing')
    check(found['GPU 0'], 'warning', 'MXNet has code for it, but does not load')
    row = found['NVIDIA driver']
    check(row, 'failed', 'knows CUDA 10.2; MXNet needs one that knows 11.0')


def test_settings_that_the_user_overrides(monkeypatch):
    for variable, ours in runtime.SETTINGS.items():
        with monkeypatch.context() as patch:
            for name in runtime.SETTINGS:
                patch.delenv(name, raising=False)
            patch.setenv(variable, '5')
            row = rows(conditions.settings)['settings']
        found = f"{variable} is '5' (ours: {ours})"
        check(row, 'warning', found, conditions.COSTS[variable], fix=f'unset {variable}')
        # With several threads our workspaces are left out, and the reader should know.
        assert ('TEMP_COPY is left out' in row.found) == (variable == 'OMP_NUM_THREADS')


def test_an_allocator_that_the_user_overrides(monkeypatch):
    for variable in (*runtime.MALLOC, 'GLIBC_TUNABLES'):
        value = 'glibc.malloc.tcache_count=7' if variable == 'GLIBC_TUNABLES' else '65536'
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            row = rows(conditions.settings)['allocator']
        check(row, 'warning', variable, value, '94 instead of 82 ms', fix=f'unset {variable}')


def test_mxnet_before_us_is_too_early(tmp_path):
    """A stand-in for MXNet is enough: what counts is that it was loaded when Python started."""
    (tmp_path / 'mxnet.py').write_text('')
    (tmp_path / 'sitecustomize.py').write_text('import mxnet')
    row = examine('settings', path=[tmp_path])['settings']
    check(row, 'warning', 'MXNet was loaded before mgpu_helpers', 'MXNET_CPU_TEMP_COPY')
    assert row.fix.startswith('export OMP_NUM_THREADS=1 MXNET_CPU_TEMP_COPY=64 ')
    exported = dict(word.split('=') for word in row.fix.split()[1:])
    check(examine('settings', path=[tmp_path], **exported)['settings'], 'ok')


@pytest.mark.skipif(not hasattr(os, 'sched_getaffinity'), reason='no affinity on this system')
def test_one_core():
    core = str(min(os.sched_getaffinity(0)))
    found = examine('cores', before=['taskset', '-c', core])
    check(found['CPU cores'], 'warning', '1 usable', 'brings no speed')


def test_a_training_that_is_no_faster_names_the_cause(monkeypatch):
    facts = {
        'losses': {'1': [2.3, 2.2], '2': [2.3, 2.2 + 1e-9]},
        'ms': {'1': 85.0, '2': 82.0},
        'faster': False,
        'devices': ['cpu(0)', 'cpu(1)'],
        'data': 'mnist',
    }
    given = {'mxnet': {}, 'train mxnet': facts}

    def look(**more):
        return rows(conditions.training, **given, **more)['two devices']

    said = 'MXNet trains 1.04 times as fast on cpu(0) and cpu(1) as on one'
    check(look(cores={'usable': 1}), 'warning', said, 'There is one usable core, which both share')
    monkeypatch.setenv('OMP_NUM_THREADS', '4')
    check(look(cores={'usable': 2}), 'warning', 'OMP_NUM_THREADS is 4', fix='unset OMP_NUM_THREADS')
    given['train mxnet'] = {'error': 'did not end within 60 s', 'missing': None}
    check(look(cores={'usable': 2}), 'failed', 'the training did not end', 'OMP_NUM_THREADS is 4')


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """A folder for MXNET_HOME with good files of MNIST, and nothing else."""
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'home'))
    return put(tmp_path / 'home', 'mnist', real_files('mnist'))


def test_data_good_damaged_in_part_and_not_there(mnist):
    found = rows(conditions.data)
    check(found['data mnist'], 'ok', f'4 files in {mnist}, verified', fix='')
    check(found['data fashion-mnist'], 'warning', 'not in', 'digits would stand in')
    assert found['data fashion-mnist'].fix.endswith(' -m mgpu_helpers data fashion-mnist')
    content = bytearray((mnist / LABELS).read_bytes())
    content[2000] ^= 1
    (mnist / LABELS).write_bytes(content)
    row = rows(conditions.data)['data mnist']
    check(row, 'failed', f'{mnist / LABELS} is not the published file')
    assert row.fix.endswith(' data mnist')
    (mnist / LABELS).unlink()
    row = rows(conditions.data)['data mnist']
    check(row, 'warning', 'only a part', f'missing: {LABELS}')


def test_a_place_that_cannot_take_the_data(tmp_path, monkeypatch):
    (tmp_path / 'file').write_text('')
    monkeypatch.setenv('MXNET_HOME', str(tmp_path / 'file'))
    row = rows(conditions.data)['data mnist']
    check(row, 'failed', f'{tmp_path / "file"} cannot be written')
    assert row.fix.startswith('export MXNET_HOME=')


def test_a_disk_that_is_full(tmp_path, machine):
    (tmp_path / 'small').mkdir()
    words = machine(tmp_path, tmp_path)
    words[words.index('-c') + 1] = 'mount -t tmpfs -o size=1m small "$2" && shift 2 && exec "$@"'
    words[-1] = str(tmp_path / 'small')
    row = examine('data', before=words, MXNET_HOME=str(tmp_path / 'small'))['data mnist']
    check(row, 'failed', 'The disk has room for 1 MB')
