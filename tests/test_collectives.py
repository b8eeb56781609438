"""The allreduces of chapter 3: the right sums, the same bits everywhere, counted messages."""

import time

import mxnet as mx
import numpy as np
import pytest
from checkouts import ROOT
from mxnet import nd

from mgpu_helpers.collectives import OURS, REGISTRY
from mgpu_helpers.collectives.algorithms import all_gather, reduce_scatter, slices
from mgpu_helpers.collectives.messages import Count, Counted, count
from mgpu_helpers.collectives.slow_network import slow_links
from mgpu_helpers.timeline import record

each_algorithm = pytest.mark.parametrize('name', OURS)


def on_devices(values, dtype='float32'):
    return [nd.array(v, ctx=mx.cpu(i), dtype=dtype) for i, v in enumerate(values)]


def test_slices_are_views_and_the_two_halves_of_a_ring_can_be_used_alone():
    x = nd.zeros((5, 3))
    for i, part in enumerate(slices(x, 4)):
        part[:] = i
    assert x.asnumpy().ravel().tolist() == [0] * 3 + [1] * 4 + [2] * 4 + [3] * 4
    assert [part if part is None else part.size for part in slices(nd.zeros(2), 3)] == [None, 1, 1]
    values = np.arange(30.0).reshape(3, 10)
    data = on_devices(values)
    parts = reduce_scatter(data)
    for i, (a, b) in enumerate([(0, 3), (3, 6), (6, 10)]):
        assert parts[i].context == mx.cpu(i)
        np.testing.assert_array_equal(parts[i].asnumpy(), values[:, a:b].sum(0))
        parts[i] += i  # what an optimizer would do with its slice
    all_gather(data)
    for x in data:
        wanted = values.sum(0) + [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
        np.testing.assert_array_equal(x.asnumpy(), wanted)


def test_each_algorithm_has_a_formula_and_a_figure_that_the_chapter_or_the_first_shows():
    chapters = [p.read_text('utf8') for p in sorted((ROOT / 'notebooks').glob('0[13]-*.ipynb'))]
    for name, algorithm in REGISTRY.items():
        assert algorithm.seconds.__name__ == name
        assert any(f'img/{algorithm.figure}' in text for text in chapters)


def test_a_message_leaves_when_its_ports_are_free_and_its_source_has_what_it_sends():
    book = Count(devices=4)
    a, b, c, d = (Counted(i, np.ones(n, 'float32'), book) for i, n in enumerate((1, 2, 3, 3)))
    assert a[0:1].copyto(0).values.tolist() == [1]  # only what leaves a device counts
    a.copyto(1).copyto(2)  # passed on
    b.copyto(3)  # waits for the outgoing port of 1
    d += c.copyto(3)  # and this for the incoming one of 3
    d.copyto(0)
    times = [(m.source, m.target, m.start, m.end) for m in book.travel(lambda nbytes: nbytes / 4)]
    assert times == [(0, 1, 0, 1), (1, 2, 1, 2), (1, 3, 2, 4), (2, 3, 4, 7), (3, 0, 7, 10)]
    assert (book.messages, book.rounds, book.busiest) == (5, 5, 4 * (2 + 3))
    assert book.additions == {3: 3}


def forgets_to_send_it_back(data):
    for x in data[1:]:
        data[0] += x.copyto(data[0].context)


def mixes_the_slices_up(data):
    OURS['ring'](data)
    for x in data:
        a = x[0:5].copyto(x.context)
        x[5:10].copyto(x[0:5])
        a.copyto(x[5:10])


def test_what_cannot_be_counted_is_refused():
    for asked, error, words in (
        ((mixes_the_slices_up, 3, 10), ValueError, r'not an allreduce.*\[0, 1, 2\] do not'),
        (
            (forgets_to_send_it_back, 3, 10),
            ValueError,
            r'forgets.*not an allreduce.*\[1, 2\] do not',
        ),
        ((lambda x: x[0].__iadd__(x[1]), 2, 10), ValueError, 'device 0 cannot .* device 1: copy'),
        ((OURS['ring'], 0, 10), ValueError, 'devices must be at least 1, not 0'),
        ((lambda data: data[0].asnumpy(), 2, 10), AttributeError, 'use only copyto'),
    ):
        with pytest.raises(error, match=words):
            count(*asked)


@each_algorithm
def test_slow_links_take_the_time_that_was_counted_and_change_no_sum(name):
    """Longer on a busy machine, never shorter; each device computes while its message travels."""
    sent = []

    def seconds(nbytes):
        sent.append(nbytes)
        return 0.01 + nbytes / 4e5

    values = np.arange(5 * 1000.0).reshape(5, 1000)
    data, copyto = on_devices(values), nd.NDArray.copyto
    start = time.perf_counter()
    with slow_links(seconds):
        OURS[name](data)
        nd.waitall()
    took = time.perf_counter() - start
    assert nd.NDArray.copyto is copyto
    for x in data:
        np.testing.assert_array_equal(x.asnumpy(), values.sum(0))
    counted = count(OURS[name], 5, 1000)
    assert len(sent) == counted.messages
    assert took >= max(m.end for m in counted.travel(seconds)) - 0.001


def test_what_no_link_can_take_is_refused_before_anything_is_sent():
    a, b = nd.ones(3), nd.zeros(3, mx.cpu(1))
    wanted = r'seconds\(nbytes\) must be a number of at least 0'
    with pytest.raises(ValueError, match=wanted), slow_links(lambda nbytes: -1):
        a.copyto(b)
    assert not b.asnumpy().any()


def test_a_device_computes_while_its_message_travels_and_the_timeline_shows_both():
    a, b, x = nd.ones(10), nd.zeros(10, mx.cpu(1)), nd.ones((300, 300))
    with slow_links(lambda nbytes: 0.001):
        a.copyto(b)  # makes the ports, which wait in a recording for nobody else
    nd.waitall()
    with record() as timeline:
        slow_links(lambda nbytes: 0.3)(lambda: a.copyto(b))()
        nd.dot(x, x)
        a += b  # waits for the message
    (message,) = [s for s in timeline.spans if s.lane == 'cpu(0) sends']
    assert (message.kind, message.name) == ('allreduce', 'to cpu(1)') and message.seconds >= 0.3
    assert 'dot' in [s.name for s in timeline.spans if s.start < message.end]
    assert timeline.lanes == ['cpu(0)', 'cpu(0) sends']
    assert not [s for s in timeline.spans if 'Wait' in s.name]


@each_algorithm
def test_bad_input_changes_nothing(name):
    one, other = mx.cpu(0), mx.cpu(1)
    sparse = [nd.ones((2, 2), ctx=d).tostype('row_sparse') for d in (one, other)]
    for data, error, words in (
        ([nd.ones(2), nd.ones(3, ctx=other)], ValueError, r'shapes .* not \(2,\), \(3,\)'),
        ([nd.ones(2), nd.ones(2, other, 'float16')], TypeError, 'types .* not float32, float16'),
        ([nd.ones(2), nd.ones(2, other), nd.ones(2)], ValueError, r'data\[0, 2\] share a device'),
        # Of these some sums would come out wrong.
        (
            [mx.np.ones(2, ctx=d) for d in (one, other)],
            TypeError,
            r'data\[0\] must be a dense.*numpy',
        ),
        (sparse, TypeError, r'data\[0\] must be a dense .* not .*RowSparseNDArray'),
    ):
        before = [x.asnumpy() for x in data]
        with pytest.raises(error, match=words):
            OURS[name](data)
        for x, b in zip(data, before, strict=True):
            np.testing.assert_array_equal(x.asnumpy(), b)
