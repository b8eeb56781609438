"""``doctor`` on a machine where something is wrong: GPUs, settings, data, cores."""

import os
import shutil
import subprocess

import pytest
from examining import A100, H200, K80, bare, check, distribution, examine, rows
from serving import LABELS, put

from mgpu_helpers import runtime
from mgpu_helpers.doctor import machine
from mgpu_helpers.doctor.questions import CUDA_LIBRARIES, Questions


def test_gpus_and_who_can_use_them(stub_driver, monkeypatch):
    monkeypatch.setenv('LD_LIBRARY_PATH', str(stub_driver([A100, H200, K80])))
    with Questions() as ask:
        driver = ask('driver')
    check(rows(machine.driver, driver=driver)['NVIDIA driver'], 'ok', 'knows CUDA 13.0')

    def look(mxnet, torch):
        return rows(machine.gpus, driver=driver, mxnet=mxnet, torch=torch)

    for_cpus = {'version': '1.9.1', 'cuda': False}
    row = look(for_cpus, {'error': 'ModuleNotFoundError', 'missing': 'torch'})
    about = 'NVIDIA A100, 40 GiB, compute capability 8.0'
    check(row['GPU 0'], 'warning', about, 'its build for GPUs is not', fix='make setup GPU=1')
    check(row['GPU 1'], 'warning', 'NVIDIA H200, 141 GiB, compute capability 9.0',
          'has machine code for 5.0 to 8.9 only', 'chapters 5 to 7 (PyTorch) can use it',
          fix='make setup GPU=1 TORCH=1')  # fmt: skip
    check(row['GPU 2'], 'warning', 'it is too old', fix='')
    row = look(for_cpus, {'cuda': '13.0', 'gpus': 2, 'capabilities': [[7, 5], [9, 0]]})
    check(row['GPU 0'], 'ok', 'PyTorch uses it; MXNet here is the build for CPUs')
    check(
        row['GPU 1'],
        'ok',
        'PyTorch (chapters 5 to 7) uses it',
        'chapters 1 to 4 run on stand-ins',
    )
    row = look({'cuda': True}, {'cuda': None, 'gpus': 0})
    check(row['GPU 0'], 'ok', 'MXNet has code for it')
    check(row['GPU 1'], 'warning', 'but the PyTorch that is installed does not')


def test_a_driver_that_gives_no_gpu(tmp_path, stub_driver, compile_c, monkeypatch):
    monkeypatch.setenv('LD_LIBRARY_PATH', str(stub_driver([])))
    monkeypatch.setenv('CUDA_VISIBLE_DEVICES', '')
    check(rows(machine.driver)['NVIDIA driver'], 'warning', "CUDA_VISIBLE_DEVICES is ''",
          fix='unset CUDA_VISIBLE_DEVICES')  # fmt: skip
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES')
    row = rows(machine.driver)['NVIDIA driver']
    assert row.verdict in ('warning', 'failed')  # failed: there is a GPU
    assert 'code 100): there is no GPU that this process may use' in row.found
    # Something else in its place:
    compile_c('int nothing(void) { return 0; }', tmp_path / 'libcuda.so.1')
    monkeypatch.setenv('LD_LIBRARY_PATH', str(tmp_path))
    row = rows(machine.driver)['NVIDIA driver']
    check(row, 'failed', 'no driver that works', 'cuDriverGetVersion')


def mounted(mount):
    """A shell that sees a mount of its own, which only its processes see."""
    inside = f'mount {mount} && exec "$@"'
    words = ['unshare', '--mount', '--map-root-user', 'sh', '-c', inside, '-']
    if not shutil.which('unshare') or subprocess.run([*words, 'true']).returncode:
        pytest.skip('this machine lets nobody mount anything here')
    return words


def test_a_gpu_on_the_bus_that_no_driver_gives(tmp_path, stub_driver):
    for slot, vendor, kind in (('00', '0x8086', '0x020000'), ('01', '0x10de', '0x030200')):
        folder = tmp_path / 'pci' / f'0000:{slot}:00.0'
        folder.mkdir(parents=True)
        (folder / 'vendor').write_text(f'{vendor}\n')
        (folder / 'class').write_text(f'{kind}\n')
    pci = mounted(f'--bind {tmp_path}/pci /sys/bus/pci/devices')
    row = examine('driver', before=pci)['NVIDIA driver']
    check(row, 'warning', 'on the PCI bus (0000:01:00.0)', 'there is no driver')
    row = examine('driver', before=pci, LD_LIBRARY_PATH=str(stub_driver([])))['NVIDIA driver']
    check(row, 'failed', 'code 100', 'On the PCI bus: 0000:01:00.0')


def test_the_gpu_build(tmp_path, compile_c, stub_driver):
    """The look of mxnet-cu112, and a library of CUDA's that needs a later one in the alphabet."""
    site = distribution(tmp_path / 'site', 'mxnet-cu112')
    folder = site / 'nvidia/all/lib'
    folder.mkdir(parents=True)
    for name in CUDA_LIBRARIES:
        compile_c('int one(void) { return 1; }', folder / name)
    needs, here = 'int {0}(void); int {1}(void) {{ return {0}(); }}', f'-L{folder}'
    compile_c(needs.format('one', 'two'), folder / 'libcudnn.so.8', here, '-l:libnvrtc.so.11.2')
    compile_c(needs.format('two', 'three'), site / 'libmxnet.so', here, '-l:libcudnn.so.8')
    (site / 'mxnet.py').write_text(
        'import ctypes, os\n__version__ = "1.9.1"\n'
        'ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libmxnet.so"))\n'
    )
    gpu_build = {'python': bare(tmp_path, 'numpy'), 'path': [site]}

    rows = examine('mxnet', 'driver', 'cuda', **gpu_build)
    check(rows['MXNet'], 'failed', 'mxnet-cu112 is installed, but does not load', 'libcuda.so.1',
          fix='make setup GPU=0')  # fmt: skip
    check(rows['NVIDIA driver'], 'failed', 'MXNet is the build for them', fix='make setup GPU=0')
    check(rows['CUDA libraries'], 'ok', *CUDA_LIBRARIES)

    old = str(stub_driver([A100], cuda=10020))
    loads = examine('mxnet', **gpu_build, LD_LIBRARY_PATH=old)['MXNet']
    check(loads, 'failed', "module 'mxnet' has no attribute 'runtime'")  # after its library
    (folder / 'libcudnn.so.8').unlink()
    rows = examine('mxnet', 'driver', 'cuda', 'gpus', **gpu_build, LD_LIBRARY_PATH=old)
    check(rows['CUDA libraries'], 'failed', 'missing: libcudnn.so.8; found: libcublas.so.11',
          fix='rm -rf .venv && make setup GPU=1')  # fmt: skip
    check(rows['MXNet'], 'failed', 'libcudnn.so.8 is missing')
    check(rows['GPU 0'], 'warning', 'MXNet has code for it, but does not load')
    check(rows['NVIDIA driver'], 'failed', 'knows CUDA 10.2; MXNet needs one that knows 11.0')


def test_settings_and_an_allocator_that_the_user_overrides(monkeypatch):
    ours = (*runtime.SETTINGS, *runtime.MALLOC, 'GLIBC_TUNABLES')
    for variable in ours:
        monkeypatch.delenv(variable, raising=False)
    for variable in ours:
        with monkeypatch.context() as patch:
            patch.setenv(variable, '5')
            row = rows(machine.settings)['settings']
        costs = machine.COSTS.get(variable, '94 instead of 82 ms')
        check(row, 'warning', f"{variable} is '5' (ours: ", costs, fix=f'unset {variable}')
        # With several threads our workspaces are left out, and the reader should know.
        assert ('TEMP_COPY is left out' in row.found) == (variable == 'OMP_NUM_THREADS')


@pytest.mark.skipif(not hasattr(os, 'sched_getaffinity'), reason='no affinity on this system')
def test_one_core():
    one = ['taskset', '-c', str(min(os.sched_getaffinity(0)))]
    check(examine('cores', before=one)['CPU cores'], 'warning', '1 usable', 'brings no speed')


def test_a_training_that_is_no_faster_names_the_cause(monkeypatch):
    losses = {'1': [2.3, 2.2], '2': [2.3, 2.2 + 1e-9]}
    slow = {'losses': losses, 'ms': {'1': 85.0, '2': 82.0}}
    slow |= {'devices': ['cpu(0)', 'cpu(1)'], 'data': 'mnist'}

    def look(usable, trained):
        given = {'mxnet': {}, 'train mxnet': trained, 'cores': {'usable': usable}}
        return rows(machine.training, **given)['two devices']

    said = 'MXNet trains 1.04 times as fast on cpu(0) and cpu(1) as on one'
    check(look(1, slow), 'warning', said, 'There is one usable core, which both share')
    monkeypatch.setenv('OMP_NUM_THREADS', '4')
    check(look(2, slow), 'warning', 'OMP_NUM_THREADS is 4', fix='unset OMP_NUM_THREADS')
    late = {'error': 'did not end within 60 s', 'missing': None}
    check(look(2, late), 'failed', 'the training did not end', 'OMP_NUM_THREADS is 4')


def test_data_good_damaged_in_part_and_not_there(home, mnist_files):
    mnist, ours = put(home, 'mnist', mnist_files), 'data mnist'
    sets = rows(machine.data)
    check(sets[ours], 'ok', f'4 files in {mnist}, verified', fix='')
    check(sets['data fashion-mnist'], 'warning', 'not in', 'digits would stand in')
    assert sets['data fashion-mnist'].fix.endswith(' -m mgpu_helpers data fashion-mnist')
    (mnist / LABELS).write_bytes(b'damaged')
    row = rows(machine.data)[ours]
    check(row, 'failed', f'{mnist / LABELS} is not the published file')
    assert row.fix.endswith(' data mnist')
    (mnist / LABELS).unlink()
    check(rows(machine.data)[ours], 'warning', 'only a part', f'missing: {LABELS}')


def test_a_place_that_cannot_take_the_data(tmp_path, monkeypatch):
    place = tmp_path / 'place'
    place.write_text('')
    monkeypatch.setenv('MXNET_HOME', str(place))
    row = rows(machine.data)['data mnist']
    check(row, 'failed', f'{place} cannot be written')
    assert row.fix.startswith('export MXNET_HOME=')
    place.unlink()
    place.mkdir()
    after = examine('data', before=mounted(f'-t tmpfs -o size=1m small {place}'))
    check(after['data mnist'], 'failed', 'The disk has room for 1 MB')
