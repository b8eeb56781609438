"""`make setup` where an NVIDIA GPU is, or is to be: the driver decides, or GPU= and TORCH= do."""

import ctypes.util
import json
import shutil

import pytest
from checkouts import call, choose, python, refused, setup

A100, H100 = ('A100', 80, (8, 0)), ('H100', 80, (9, 0))
K80, M60, B200 = ('K80', 12, (3, 7)), ('M60', 8, (5, 0)), ('B200', 192, (10, 0))
BASE, TORCH = 'tools/locks/base.txt', 'tools/locks/torch.txt'
TORCH_CPU = 'tools/locks/torch-cpu.txt'
CPU, CU112 = f'{BASE} tools/locks/cpu.txt', f'{BASE} tools/locks/cu112.txt'
BOTH, CPUS, PYPI = f'{CPU} {TORCH}', f'{CPU} {TORCH_CPU}', f'{BASE} {TORCH}'
BOTH_READY = 'MXNet for NVIDIA GPUs in .venv, MXNet for CPUs and PyTorch with CUDA in .venv-torch'


def remembered(folder):
    return [(folder / '.uv' / name).read_text().strip() for name in ('kind', 'torch', 'build')]


def test_a_wrong_value_is_named(checkout):
    for name, value, expected in (
        ('GPU', 'yes', '1 (NVIDIA GPUs), 0'),
        ('GPU', '0,1', '1 (NVIDIA GPUs), 0'),
        ('TORCH', 'yes', '1 (PyTorch too), only'),
        ('MGPU_DRIVER', 'none', 'later'),
    ):
        refused(setup(checkout, **{name: value}), f"{name} is '{value}'", f'expected {expected}')
    assert not (checkout / '.uv').exists()


def test_gpu_packages_without_a_driver_are_not_fetched(checkout, offline):
    if ctypes.util.find_library('cuda'):
        pytest.skip("NVIDIA's driver is here")
    plain = offline | {'LD_LIBRARY_PATH': None}
    refused(setup(checkout, GPU=1, **plain), "NVIDIA's driver", 'make setup GPU=0')
    refused(setup(checkout, **plain), 'GPU=0')  # the choice is remembered until it is taken back


@pytest.mark.parametrize(
    'gpus, cuda, given, chosen, kept, words',
    [
        # Two environments: what is fetched first is the one with MXNet.
        ([A100, H100], 13000, {}, CU112, 'cu112 1 pypi', ['GPU=0', 'counted as absent']),
        ([A100], 13000, {'TORCH': 0}, CU112, 'cu112 0 pypi', ['A100', 'GPU=0']),
        ([A100], 13000, {'GPU': 0}, CPUS, 'cpu 1 cpu', []),
        # One, where PyTorch brings nothing of NVIDIA's.
        ([A100], 12040, {}, f'{CU112} {TORCH_CPU}', 'cu112 1 cpu', ['supports CUDA 12.4']),
        ([M60], 13000, {}, f'{CU112} {TORCH_CPU}', 'cu112 1 cpu', ['5.0, and it needs']),
        ([H100], 13000, {}, BOTH, 'cpu 1 pypi', ["PyTorch's can use these GPUs"]),
        ([B200, K80], 13000, {}, BOTH, 'cpu 1 pypi', ['5.0 to 8.9 only']),
        ([K80], 13000, {}, CPUS, 'cpu 1 cpu', ['5.0 to 8.9 only', 'MXNet for CPUs is installed']),
        # An image is made before there is a driver; one with MXNet: tests/test_machine_files.py.
        (None, 0, {'GPU': 1, 'TORCH': 'only', 'MGPU_DRIVER': 'later'}, PYPI, 'cu112 only pypi', []),
    ],
)  # fmt: skip
def test_first_setup_chooses_by_itself_and_stays_with_it(
    checkout, offline, stub_driver, gpus, cuda, given, chosen, kept, words
):
    driver = gpus and stub_driver(gpus, cuda)
    locks, said = choose(checkout, **offline, LD_LIBRARY_PATH=driver, **given)
    assert (locks, remembered(checkout)) == (chosen, kept.split())
    assert all(word in said for word in words)
    if gpus == [H100]:  # and with a driver that says something else, on another day, or is away
        for others in ([A100], []):
            locks, _ = choose(checkout, **offline, LD_LIBRARY_PATH=stub_driver(others))
            assert (locks, remembered(checkout)) == (chosen, kept.split())
    if gpus == [A100] and given == {'GPU': 0}:  # until it is asked for
        locks, _ = choose(checkout, **offline, LD_LIBRARY_PATH=driver, GPU=1)
        assert (locks, remembered(checkout)) == (CU112, ['cu112', '1', 'pypi'])


def test_gpu_1_is_refused_or_means_pytorch_if_all_are_too_new(checkout, offline, stub_driver):
    for gpu, cuda, word in ((K80, 11040, '3.7'), (A100, 10020, '10.2')):
        driver = stub_driver([gpu], cuda)
        refused(setup(checkout, GPU=1, LD_LIBRARY_PATH=driver), gpu[0], word, 'make setup GPU=0')
    driver = stub_driver([H100, H100])
    refused(setup(checkout, GPU=1, TORCH=0, LD_LIBRARY_PATH=driver), 'H100', 'TORCH=1', 'GPU=0')
    assert not (checkout / '.uv').exists()
    choose(checkout, **offline, GPU=0, TORCH=0)  # remembered, and it does not stand against it
    locks, said = choose(checkout, **offline, LD_LIBRARY_PATH=driver, GPU=1)
    assert (locks, remembered(checkout)) == (BOTH, ['cpu', '1', 'pypi'])
    assert '2 x H100 (compute capability 9.0)' in said


@pytest.fixture
def two(checkout, with_uv, stub_driver):
    """Two environments, as where there are two A100, but of the builds for CPUs, which are here."""
    locks = checkout / 'tools' / 'locks'
    kept = {name: (locks / name).read_bytes() for name in ('cu112.txt', 'torch.txt')}
    shutil.copy(locks / 'cpu.txt', locks / 'cu112.txt')
    shutil.copy(locks / 'torch-cpu.txt', locks / 'torch.txt')
    given = {'PATH': with_uv, 'LD_LIBRARY_PATH': stub_driver([A100, A100]), 'UV_OFFLINE': 1}
    try:
        done = setup(checkout, **given)
        if 'could not be' in done.stderr:
            pytest.skip("not every wheel is in uv's cache, and the network is not used here")
        assert done.returncode == 0, done.stdout + done.stderr
        yield checkout, given, done.stdout
    finally:  # the module's tests share the copy
        for name, text in kept.items():
            (locks / name).write_bytes(text)


@pytest.mark.slow  # 90 s where nothing else works
def test_mxnet_and_pytorch_for_gpus_have_an_environment_and_a_kernel_each(two):
    folder, given, said = two
    ready = f'setup: ready ({BOTH_READY})\n'
    assert said.endswith(ready) and setup(folder, **given).stdout == ready

    # Each notebook's kernel is the right Python, for `make run` and for nbval.
    (folder / 'notebooks').mkdir(exist_ok=True)
    kernels = {'01-one': ('mxnet', '.venv'), '05-five': ('torch', '.venv-torch')}
    for name, (framework, _) in kernels.items():
        source = f'import sys\nimport {framework}\nprint(sys.prefix)'
        cell = {'cell_type': 'code', 'metadata': {}, 'source': source, 'outputs': [], 'id': name}
        page = {'cells': [cell | {'execution_count': None}], 'metadata': {}}
        page |= {'nbformat': 4, 'nbformat_minor': 5}
        (folder / f'notebooks/{name}.ipynb').write_text(json.dumps(page))
    done = call(folder, 'make', 'run', 'RUN_ARGS=--store', **given)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, (_, where) in kernels.items():
        (cell,) = json.loads((folder / f'notebooks/{name}.ipynb').read_text())['cells']
        assert cell['outputs'][0]['text'] == [f'{folder}/{where}\n']
    done = call(folder, 'make', 'test', 'TESTS=notebooks/0*.ipynb', **given)
    assert '2 passed' in done.stdout, done.stdout + done.stderr

    code = 'import json; from mgpu_helpers import doctor; '
    code += 'print("\\n" + json.dumps([*doctor.kernels(), *doctor.ask("torch", 60)]))'
    rows = json.loads(python(folder, code, JUPYTER_PREFER_ENV_PATH=1).stdout.splitlines()[-1])
    assert [verdict for _, verdict, *_ in rows] == ['ok'] * 3, rows
    assert f'the Python of {folder}/.venv-torch' in rows[1][2]
    code = 'from mgpu_helpers.processes import python_with as p; '
    code += 'print(p("torch"), p("mxnet"), sep="\\n")'
    both = [str(folder / where / 'bin/python') for where in ('.venv-torch', '.venv')]
    assert python(folder, code).stdout.splitlines() == both

    # Back to one: what is left over goes.
    done = setup(folder, **given, GPU=0)
    assert done.stdout.endswith('setup: ready (MXNet for CPUs and PyTorch in .venv)\n'), done.stderr
    assert not (folder / '.venv-torch').exists() and setup(folder, **given).stdout.count('\n') == 1
    assert python(folder, 'import mgpu_helpers, mxnet, torch').returncode == 0
