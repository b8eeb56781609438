"""Devices: enough GPUs or stand-ins, never a mix. GPUs are those of a compiled stub driver."""

import time
from types import SimpleNamespace

import mxnet as mx
import pytest
from examining import A100, H200, K80, python

import mgpu_helpers as mgpu
from mgpu_helpers.devices import choose_devices

RTX4090 = ('RTX 4090', 24, (8, 9))
# This MXNet is the CPU build; the GPU build answers True in the second part.
SCRIPT = """
    import mgpu_helpers as mgpu, mxnet as mx
    from mgpu_helpers.devices import mxnet_devices
    print(mgpu.num_gpus(), mgpu.describe_devices(), sep='\\n', end='\\n\\n')

    is_enabled = mx.runtime.Features.is_enabled
    mx.runtime.Features.is_enabled = lambda self, name: name == 'CUDA' or is_enabled(self, name)
    mxnet_devices.usable_gpus.cache_clear()
    print(mgpu.describe_devices(), end='\\n\\n')

    print(mgpu.num_gpus(), mgpu.devices(2), mgpu.try_gpu(), mgpu.try_all_gpus())
    for k in (3, 3, 99, 99): found = mgpu.devices(k)
    print(found[:3])
    try: mxnet_devices.choose_devices(2, [mx.gpu(0), mx.cpu(0)])
    except ValueError as error: print(error)
"""


def test_workers_of_a_cluster_share_the_gpus_of_a_machine_or_nobody_gets_one(stub_driver):
    share = """
        from mgpu_helpers.cluster.local import share_gpus
        for k in 1, 2, 3: print(*(env['CUDA_VISIBLE_DEVICES'] for env in share_gpus(k)), sep='|')
    """
    folder = str(stub_driver([A100, RTX4090]))
    for given, parts in {'': ['0,1', '0|1', '||'], 'a,b': ['a,b', 'a|b', '||']}.items():
        done = python(share, LD_LIBRARY_PATH=folder, CUDA_VISIBLE_DEVICES=given)
        assert done.stdout.splitlines() == parts, done.stderr


def test_gpus_that_mxnet_can_use_and_gpus_that_it_cannot(stub_driver):
    done = python(SCRIPT, LD_LIBRARY_PATH=str(stub_driver([A100, H200, RTX4090, K80])))
    assert done.returncode == 0, done.stderr
    cpu_build, gpu_build, said = (part.splitlines() for part in done.stdout.split('\n\n'))

    assert cpu_build[0] == '0' and cpu_build[7].startswith('cpu(0)')
    code, build = 'no machine code for it in this MXNet', 'the CPU build of MXNet'
    why = [row.split('not used: ')[1].split('  ')[0] for row in cpu_build[3:7]]
    assert why == [build, code, build, code]
    used, new, _, old = gpu_build[2:]
    assert used.startswith('gpu(0)') and 'not used' not in used
    assert 'NVIDIA A100' in used and '40 GiB' in used and '8.0' in used
    assert 'NVIDIA H200, not used: no machine code for it' in new
    assert '141 GiB' in new and '9.0' in new and 'not used' in old

    # A GPU without machine code counts as absent, and is named once.
    assert done.stderr.count('ignored, because') == 1
    assert 'NVIDIA H200, compute capability 9.0' in done.stderr and 'K80' in done.stderr
    # Enough GPUs are given without a notice; else there are stand-ins, which is said once.
    assert said[0] == '2 [gpu(0), gpu(2)] gpu(0) [gpu(0), gpu(2)]'
    assert '2 usable GPUs here, so CPU cores stand in' in said[1]
    assert 'stand-ins share' in said[2] and said[3] == '[cpu(0), cpu(1), cpu(2)]'
    assert said[4:] == ['[gpu(0), cpu(0)] mixes GPUs with stand-ins: use only one kind']


@pytest.mark.skipif(mgpu.num_gpus() > 0, reason='there are real GPUs here')
def test_try_all_gpus_gives_a_stand_in_per_core():
    assert mgpu.try_all_gpus() == [mx.cpu(i) for i in range(mgpu.usable_cores())]
    table = mgpu.describe_devices()
    assert table.headers == ['device', 'what it is', 'memory', 'compute capability']
    assert [row[0] for row in table.rows if str(row[0])[:3] == 'cpu'] == mgpu.try_all_gpus()


def test_choose_devices_takes_the_users_own():
    assert choose_devices(2, (mx.cpu(3), mx.cpu(1))) == [mx.cpu(3), mx.cpu(1)]
    for wrong in SimpleNamespace(index=0), 3:  # as PyTorch's devices are
        with pytest.raises((TypeError, ValueError), match=r'mx\.cpu\(0\)'):
            choose_devices(1, [wrong])


def test_speeds_are_those_of_each_setting_and_two_are_compared_with_each(started):
    def ready(devices):
        return lambda: time.sleep(0.04 / len(devices))

    both = mgpu.compare_speeds(ready, examples=10, rounds=2)
    assert [len(rates) for rates in both.rates.values()] == [2, 2, 2]
    one, _, two = (max(rates) for rates in both.rates.values())
    assert one <= 250 and two <= 500 and repr(both).count('\n') == 4
