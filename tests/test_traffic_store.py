"""What MXNet's distributed key-value store sends: the array once, and a sixteenth in 2 bits."""

from mgpu_helpers.cluster import LocalCluster, socket_bytes

ARRAY = 4_000_000  # bytes
TWO_BIT = {'type': '2bit', 'threshold': 0.5}


def push_and_pull():
    """Give, without and with compression, the bytes sent and received, and what was pulled."""
    import mxnet as mx

    found = []
    store = mx.kv.create('dist_sync')
    for compression in (None, TWO_BIT):
        if compression:
            store.set_gradient_compression(compression)
        key, values = str(compression), mx.nd.ones(1_000_000)
        store.init(key, mx.nd.zeros(1_000_000))
        before = socket_bytes()
        store.push(key, values)
        store.pull(key, out=values)
        values.wait_to_read()
        more = socket_bytes() - before
        found.append((more.sent, more.received, values.asnumpy().mean().item()))
    return found


def test_a_push_sends_the_array_once_or_a_sixteenth_and_a_pull_receives_it_once(started):
    ((plain, packed),) = LocalCluster(1, 1).run(push_and_pull, show=False)
    sent, received, mean = plain
    assert ARRAY <= sent <= 1.01 * ARRAY  # 86 bytes more were measured
    assert ARRAY <= received <= 1.01 * ARRAY
    assert mean == 1
    sent, received, mean = packed
    assert ARRAY / 16 <= sent <= 1.01 * ARRAY / 16  # 98 bytes more were measured
    assert ARRAY <= received <= 1.01 * ARRAY  # a pull is not compressed
    assert mean == 0.5  # what is sent is the threshold; the rest of the 1 waits in the worker
