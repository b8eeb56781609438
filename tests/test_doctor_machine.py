"""``doctor`` on a machine where something is wrong: GPUs, settings, data, cores."""

# ruff: noqa: F811 (a fixture that is imported, and asked for by its name)

import os
import shutil
import subprocess
import sys

import pytest
from examining import ROOT, bare, check, distribution, environment, examine, needs_mxnet  # noqa: F401
from serving import LABELS, real_files

from mgpu_helpers import runtime

A100, H200, K80 = ('NVIDIA A100', 40, (8, 0)), ('NVIDIA H200', 141, (9, 0)), ('K80', 12, (3, 7))


# --- GPUs ---------------------------------------------------------------------------------------
def test_gpus_that_mxnet_could_use_but_is_the_build_for_cpus(stub_driver):
    rows = examine('driver', 'gpus', 'cuda', LD_LIBRARY_PATH=str(stub_driver([A100, H200, K80])))
    check(rows['NVIDIA driver'], 'ok', 'knows CUDA 13.0')
    check(rows['GPU 0'], 'warning', 'NVIDIA A100, 40 GiB, compute capability 8.0')
    assert 'GPU=1' in rows['GPU 0']['fix']
    check(rows['GPU 1'], 'warning', 'NVIDIA H200, 141 GiB, compute capability 9.0',
          'has machine code for 5.0 to 8.9 only', 'chapter 5 (PyTorch) can use it',
          fix='make setup TORCH=1')  # fmt: skip
    check(rows['GPU 2'], 'warning', 'it is too old', fix='')
    check(rows['CUDA libraries'], 'not needed')


def test_a_driver_that_gives_no_gpu(stub_driver):
    folder = str(stub_driver([]))
    hidden = examine('driver', LD_LIBRARY_PATH=folder, CUDA_VISIBLE_DEVICES='')
    check(hidden['NVIDIA driver'], 'warning', "CUDA_VISIBLE_DEVICES is ''",
          fix='unset CUDA_VISIBLE_DEVICES')  # fmt: skip
    rows = examine('driver', LD_LIBRARY_PATH=folder)
    assert rows['NVIDIA driver']['verdict'] in ('warning', 'failed')  # failed: there is a GPU
    assert 'code 100): there is no GPU that this process may use' in rows['NVIDIA driver']['found']


def test_something_else_in_the_place_of_the_driver(tmp_path, compile_c):
    compile_c('int nothing(void) { return 0; }', tmp_path / 'libcuda.so.1')
    rows = examine('driver', LD_LIBRARY_PATH=str(tmp_path))
    check(rows['NVIDIA driver'], 'failed', 'no driver that works', 'cuDriverGetVersion')


@pytest.fixture
def machine(tmp_path):
    """A shell in which some folder stands in the place of another, for its processes only."""

    def put(folder, place):
        inside = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        words = ['unshare', '--mount', '--map-root-user', 'sh', '-c', inside, '-', folder, place]
        if (
            shutil.which('unshare') is None
            or subprocess.run([*map(str, words), 'true'], capture_output=True).returncode
        ):
            pytest.skip('this machine lets nobody mount anything here')
        return list(map(str, words))

    return put


@pytest.fixture
def pci(tmp_path, machine):
    """A PCI bus with a network card and an NVIDIA GPU."""
    for slot, vendor, kind in (('00', '0x8086', '0x020000'), ('01', '0x10de', '0x030200')):
        folder = tmp_path / 'pci' / f'0000:{slot}:00.0'
        folder.mkdir(parents=True)
        (folder / 'vendor').write_text(f'{vendor}\n')
        (folder / 'class').write_text(f'{kind}\n')
    return machine(tmp_path / 'pci', '/sys/bus/pci/devices')


def test_a_gpu_without_a_driver(pci):
    rows = examine('driver', before=pci)
    check(rows['NVIDIA driver'], 'warning', 'on the PCI bus (0000:01:00.0)', 'there is no driver')


def test_a_gpu_that_its_driver_does_not_give(pci, stub_driver):
    rows = examine('driver', before=pci, LD_LIBRARY_PATH=str(stub_driver([])))
    check(rows['NVIDIA driver'], 'failed', 'code 100', 'On the PCI bus: 0000:01:00.0')


@pytest.fixture
def gpu_build(tmp_path, compile_c):
    """The look of mxnet-cu112, with a library that is linked with two of CUDA's."""
    site = distribution(tmp_path / 'site', 'mxnet-cu112')
    parts = {'libcudart.so.11.0': 'cuda_runtime', 'libcudnn.so.8': 'cudnn'}
    for name, folder in parts.items():
        (site / 'nvidia' / folder / 'lib').mkdir(parents=True)
        library = site / 'nvidia' / folder / 'lib' / name
        compile_c(f'int {folder}(void) {{ return 1; }}', library)
    (site / 'mxnet').mkdir()
    compile_c(
        'int cudnn(void); int cuda_runtime(void); int m(void) { return cudnn() + cuda_runtime(); }',
        site / 'mxnet' / 'libmxnet.so',
        *(f'-L{site}/nvidia/{folder}/lib' for folder in parts.values()),
        *(f'-l:{name}' for name in parts),
    )
    (site / 'mxnet' / '__init__.py').write_text(
        'import ctypes, os\n__version__ = "1.9.1"\n'
        'ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libmxnet.so"))\n'
    )
    return site


def test_the_gpu_build_without_a_driver(gpu_build, bare):
    rows = examine('mxnet', 'driver', 'cuda', python=bare('numpy'), path=[gpu_build])
    check(rows['MXNet'], 'failed', 'mxnet-cu112 is installed, but does not load', 'libcuda.so.1',
          fix='make setup GPU=0')  # fmt: skip
    check(rows['NVIDIA driver'], 'failed', 'MXNet is the build for them', fix='make setup GPU=0')
    check(rows['CUDA libraries'], 'ok', 'found: libcudart.so.11.0, libcudnn.so.8')


def test_a_cuda_library_that_is_missing(gpu_build, bare, stub_driver):
    (gpu_build / 'nvidia/cudnn/lib/libcudnn.so.8').unlink()
    rows = examine('mxnet', 'cuda', 'gpus', python=bare('numpy'), path=[gpu_build],
                   LD_LIBRARY_PATH=str(stub_driver([A100])))  # fmt: skip
    check(rows['CUDA libraries'], 'failed', 'missing: libcudnn.so.8; found: libcudart.so.11.0',
          fix='rm -rf .venv && make setup GPU=1')  # fmt: skip
    check(rows['MXNet'], 'failed', 'libcudnn.so.8 is missing')
    check(rows['GPU 0'], 'warning', 'MXNet has code for it, but does not load')


def test_a_driver_that_is_too_old_for_cuda_11(gpu_build, bare, stub_driver):
    rows = examine('driver', python=bare('numpy'), path=[gpu_build],
                   LD_LIBRARY_PATH=str(stub_driver([A100], cuda=10020)))  # fmt: skip
    check(rows['NVIDIA driver'], 'failed', 'knows CUDA 10.2; MXNet needs one that knows 11.0')


# --- Settings -----------------------------------------------------------------------------------
def test_settings_in_force():
    rows = examine('settings')
    check(rows['settings'], 'ok', *(f'{name}={value}' for name, value in runtime.SETTINGS.items()))
    check(rows['allocator'], 'ok')


@pytest.mark.parametrize('variable', runtime.SETTINGS)
def test_a_setting_that_the_user_overrides(variable):
    done = subprocess.run(
        [sys.executable, '-c', 'from mgpu_helpers.doctor import examine\n'
         'for row in examine(["settings"]).warnings: print(*row, sep="|")'],
        capture_output=True, text=True, env=environment(**{variable: '5'}),
    )  # fmt: skip
    rows = [line.split('|') for line in done.stdout.splitlines()]
    assert [f"{variable} is '5' (ours: {runtime.SETTINGS[variable]})" in row[2] for row in rows][0]
    assert rows[0][3] == f'unset {variable}'
    assert len(rows) == 1
    # With several threads our workspaces are left out, and the reader should know.
    assert ('TEMP_COPY is left out' in rows[0][2]) == (variable == 'OMP_NUM_THREADS')


@pytest.mark.parametrize('variable', [*runtime.MALLOC, 'GLIBC_TUNABLES'])
def test_an_allocator_that_the_user_overrides(variable):
    value = 'glibc.malloc.tcache_count=7' if variable == 'GLIBC_TUNABLES' else '65536'
    row = examine('settings', **{variable: value})['allocator']
    check(row, 'warning', variable, value, '94 instead of 82 ms', fix=f'unset {variable}')


def test_mxnet_before_us_is_too_early(tmp_path):
    """A stand-in for MXNet is enough: what counts is that it was loaded when Python started."""
    (tmp_path / 'mxnet.py').write_text('')
    (tmp_path / 'sitecustomize.py').write_text('import mxnet')
    row = examine('settings', path=[tmp_path])['settings']
    check(row, 'warning', 'MXNet was loaded before mgpu_helpers', 'MXNET_CPU_TEMP_COPY')
    assert row['fix'].startswith('export OMP_NUM_THREADS=1 MXNET_CPU_TEMP_COPY=64 ')
    exported = dict(word.split('=') for word in row['fix'].split()[1:])
    check(examine('settings', path=[tmp_path], **exported)['settings'], 'ok')


@pytest.mark.skipif(not hasattr(os, 'sched_getaffinity'), reason='no affinity on this system')
def test_one_core():
    core = str(min(os.sched_getaffinity(0)))
    rows = examine('cores', before=['taskset', '-c', core])
    check(rows['CPU cores'], 'warning', '1 usable', 'brings no speed')


@pytest.mark.slow
@needs_mxnet
@pytest.mark.skipif(not hasattr(os, 'sched_getaffinity'), reason='no affinity on this system')
def test_training_on_one_core_names_the_cause():
    core = str(min(os.sched_getaffinity(0)))
    row = examine('training', before=['taskset', '-c', core])['two devices']
    check(row, 'warning', 'MXNet trains', 'There is one usable core, which both share')


# --- Data ---------------------------------------------------------------------------------------
@pytest.fixture
def mnist(tmp_path):
    """A folder for MXNET_HOME with good files of MNIST, and nothing else."""
    folder = tmp_path / 'home' / 'datasets' / 'mnist'
    folder.mkdir(parents=True)
    for filename, content in real_files('mnist').items():
        (folder / filename).write_bytes(content)
    return folder


def test_data_that_are_good_and_data_that_are_not_there(mnist):
    rows = examine('data', MXNET_HOME=str(mnist.parent.parent))
    check(rows['data mnist'], 'ok', f'4 files in {mnist}, verified', fix='')
    check(rows['data fashion-mnist'], 'warning', 'not in', 'digits would stand in')
    assert rows['data fashion-mnist']['fix'].endswith(' -m mgpu_helpers data fashion-mnist')


def test_a_damaged_file_is_named(mnist):
    content = bytearray((mnist / LABELS).read_bytes())
    content[2000] ^= 1
    (mnist / LABELS).write_bytes(content)
    row = examine('data', MXNET_HOME=str(mnist.parent.parent))['data mnist']
    check(row, 'failed', f'{mnist / LABELS} is not the published file')
    assert row['fix'].endswith(' data mnist')


def test_a_part_of_a_set(mnist):
    (mnist / LABELS).unlink()
    row = examine('data', MXNET_HOME=str(mnist.parent.parent))['data mnist']
    check(row, 'warning', 'only a part', f'missing: {LABELS}')


def test_a_place_that_cannot_take_the_data(tmp_path):
    (tmp_path / 'file').write_text('')
    row = examine('data', MXNET_HOME=str(tmp_path / 'file'))['data mnist']
    check(row, 'failed', f'{tmp_path / "file"} cannot be written')
    assert row['fix'].startswith('export MXNET_HOME=')


def test_a_disk_that_is_full(tmp_path, machine):
    (tmp_path / 'small').mkdir()
    words = machine(tmp_path, tmp_path)
    words[words.index('-c') + 1] = 'mount -t tmpfs -o size=1m small "$2" && shift 2 && exec "$@"'
    words[-1] = str(tmp_path / 'small')
    row = examine('data', before=words, MXNET_HOME=str(tmp_path / 'small'))['data mnist']
    check(row, 'failed', 'The disk has room for 1 MB')
