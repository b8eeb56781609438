"""What MXNet's distributed key-value store sends: the array once, and a sixteenth in 2 bits."""

import json
import socket
import sys
import textwrap

from mgpu_helpers.processes import Group

# Prints what pushing and pulling a million values added to the traffic.
WORKER = """
    import json, sys
    from mgpu_helpers.cluster import socket_bytes
    import mxnet as mx

    store = mx.kv.create('dist_sync')
    if sys.argv[1] != 'none':
        store.set_gradient_compression({'type': sys.argv[1], 'threshold': 0.5})
    values = mx.nd.ones(1_000_000)
    store.init(0, mx.nd.zeros(1_000_000))
    before = socket_bytes()
    store.push(0, values)
    store.pull(0, out=values)
    values.wait_to_read()
    found = socket_bytes() - before
    server = socket_bytes([('127.0.0.1', int(sys.argv[2]))])
    print(json.dumps([found.sent, found.received, server.sent, values.asnumpy().mean().item()]))
"""


ARRAY = 4_000_000  # bytes


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as free:
        return str(free.getsockname()[1])


def push_and_pull(compression):
    """Give the worker's bytes sent and received, those to the server in all, and what it pulled."""
    port = free_port()
    env = {
        'DMLC_PS_ROOT_URI': '127.0.0.1', 'DMLC_PS_ROOT_PORT': free_port(),
        'DMLC_NODE_HOST': '127.0.0.1', 'DMLC_INTERFACE': 'lo',
        'DMLC_NUM_SERVER': '1', 'DMLC_NUM_WORKER': '1',
    }  # fmt: skip
    lines = []
    with Group() as group:
        for role in ('scheduler', 'server', 'worker'):
            code = WORKER if role == 'worker' else 'import mgpu_helpers, mxnet'
            command = [sys.executable, '-c', textwrap.dedent(code), compression, port]
            more = {'DMLC_ROLE': role} | ({'PORT': port} if role == 'server' else {})
            group.start(role, command, env | more)
        group.wait(lambda name, line: lines.append(line), timeout=60)
    return json.loads(lines[-1])


def test_a_push_sends_the_array_once_and_a_pull_receives_it_once():
    sent, received, to_server, mean = push_and_pull('none')
    assert ARRAY <= sent <= 1.01 * ARRAY  # 86 bytes more were measured
    assert ARRAY <= received <= 1.01 * ARRAY
    # The start values and the push, and next to nothing besides.
    assert 2 * ARRAY <= to_server <= 2.01 * ARRAY
    assert mean == 1


def test_two_bits_a_value_send_a_sixteenth():
    sent, received, to_server, mean = push_and_pull('2bit')
    assert ARRAY / 16 <= sent <= 1.01 * ARRAY / 16  # 98 bytes more were measured
    assert ARRAY <= received <= 1.01 * ARRAY  # a pull is not compressed
    assert mean == 0.5  # what is sent is the threshold; the rest of the 1 waits in the worker
