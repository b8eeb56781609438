"""Devices: enough GPUs or stand-ins, never a mix. GPUs are those of a compiled stub driver."""

import subprocess
import sys
import textwrap

import mxnet as mx
import pytest

import mgpu_helpers as mgpu
from mgpu_helpers.devices import choose_devices

A100, H200 = ('NVIDIA A100', 40, (8, 0)), ('NVIDIA H200', 141, (9, 0))
RTX4090, OLD = ('RTX 4090', 24, (8, 9)), ('Tesla K80', 12, (3, 7))
# This MXNet is the CPU build; the GPU build answers True here.
CUDA_BUILD = """
    import mgpu_helpers as mgpu, mxnet as mx
    is_enabled = mx.runtime.Features.is_enabled
    mx.runtime.Features.is_enabled = lambda self, name: name == 'CUDA' or is_enabled(self, name)
"""


def python(script, driver, preamble=CUDA_BUILD):
    done = subprocess.run(
        [sys.executable, '-c', textwrap.dedent(preamble) + textwrap.dedent(script)],
        capture_output=True, text=True, timeout=60, env=environment(driver),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def environment(driver):
    import os

    return os.environ | {'LD_LIBRARY_PATH': str(driver)}


def test_enough_gpus_are_given_without_a_notice(stub_driver):
    done = python('print(mgpu.devices(2), mgpu.num_gpus())', stub_driver([A100, RTX4090, A100]))
    assert done.stdout == '[gpu(0), gpu(1)] 3\n'
    assert done.stderr == ''


def test_one_gpu_and_two_devices_gives_two_stand_ins(stub_driver):
    done = python('print(mgpu.devices(1)); print(mgpu.devices(2))', stub_driver([A100]))
    first, notice, second = done.stdout.splitlines()
    assert (first, second) == ('[gpu(0)]', '[cpu(0), cpu(1)]')
    assert '1 usable GPU here' in notice


def test_try_gpu_as_in_the_sources(stub_driver):
    script = 'print(mgpu.try_gpu(), mgpu.try_gpu(1), mgpu.try_all_gpus())'
    done = python(script, stub_driver([A100]))
    assert done.stdout == 'gpu(0) cpu(0) [gpu(0)]\n'


@pytest.mark.parametrize('gpu', [H200, OLD])
def test_a_gpu_without_machine_code_counts_as_absent_and_is_named_once(stub_driver, gpu):
    done = python(
        'print(mgpu.num_gpus(), mgpu.try_gpu(1), mgpu.num_gpus())', stub_driver([gpu, A100])
    )
    assert done.stdout == '1 gpu(1) 1\n'
    assert done.stderr.count('counted as absent') == 1
    assert gpu[0] in done.stderr
    assert 'compute capability {}.{}'.format(*gpu[2]) in done.stderr


def test_gpus_are_described_also_those_not_used(stub_driver):
    done = python('print(mgpu.describe_devices())', stub_driver([A100, H200]))
    used, not_used = done.stdout.splitlines()[2:]
    assert used.split()[:1] == ['gpu(0)']
    assert 'NVIDIA A100' in used and '40 GiB' in used and '8.0' in used
    assert 'not used: no machine code for it' in not_used
    assert '141 GiB' in not_used and '9.0' in not_used


def test_the_cpu_build_says_why_it_leaves_a_gpu_alone(stub_driver):
    done = python(
        'import mgpu_helpers as mgpu; print(mgpu.num_gpus()); print(mgpu.describe_devices())',
        stub_driver([A100]), preamble='',
    )  # fmt: skip
    assert done.stdout.startswith('0\n')
    assert 'not used: the CPU build of MXNet' in done.stdout
    assert 'cpu(0)' in done.stdout


def test_a_driver_without_devices_is_no_gpu(stub_driver):
    assert python('print(mgpu.num_gpus())', stub_driver([])).stdout == '0\n'


def test_stand_ins_are_said_once(stub_driver):
    script = 'mgpu.devices(2); mgpu.devices(2); mgpu.devices(99); mgpu.devices(99)'
    lines = python(script, stub_driver([])).stdout.splitlines()
    assert len(lines) == 2
    assert 'stand in' in lines[0]
    assert '99 stand-ins share' in lines[1]


def test_stand_ins_hold_arrays_of_their_own():
    first = mx.nd.ones(3, ctx=mx.cpu(0))
    second = first.as_in_context(mx.cpu(1))
    first[:] = 7
    assert second.context == mx.cpu(1)
    assert (second.asnumpy() == 1).all()


@pytest.mark.skipif(mgpu.num_gpus() > 0, reason='there are real GPUs here')
def test_try_all_gpus_gives_a_stand_in_per_core():
    assert mgpu.try_all_gpus() == [mx.cpu(i) for i in range(mgpu.usable_cores())]


@pytest.mark.parametrize(
    'k,error',
    [(0, ValueError), (-1, ValueError), (2.0, TypeError), ('2', TypeError), (None, TypeError)],
)
def test_devices_refuses_a_number_that_is_none(k, error):
    with pytest.raises(error, match=str(k)):
        mgpu.devices(k)


@pytest.mark.parametrize('i,error', [(-1, ValueError), (0.0, TypeError), (True, TypeError)])
def test_try_gpu_refuses_a_number_that_is_none(i, error):
    with pytest.raises(error, match=str(i)):
        mgpu.try_gpu(i)


def test_describe_devices_refuses_a_repeated_device():
    with pytest.raises(ValueError, match='more than once'):
        mgpu.describe_devices([mx.cpu(0), mx.cpu(0)])


def test_choose_devices_takes_the_users_own():
    assert choose_devices(2, (mx.cpu(3), mx.cpu(1))) == [mx.cpu(3), mx.cpu(1)]


@pytest.mark.parametrize('many', [257, 100_000, 10**400])
def test_more_stand_ins_than_a_machine_can_start_are_refused_at_once(many, capsys):
    for call in (mgpu.devices, lambda k: mgpu.train(k, 256, 0.2), lambda k: choose_devices(k)):
        with pytest.raises(ValueError, match='too many for one machine.*use at most 256'):
            call(many)
    assert capsys.readouterr().out == ''
