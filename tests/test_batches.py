"""Batches: what an epoch is, what a batch looks like, what is refused."""

# ruff: noqa: F811 (a fixture that is imported, and asked for by its name)

import re

import numpy as np
import pytest
from serving import home  # noqa: F401

from mgpu_helpers import data
from mgpu_helpers.data import Batches


def numbered(n):
    """`n` images that carry their own number, and as labels the same number."""
    images = np.zeros((n, 28, 28), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = np.arange(n) % 256, np.arange(n) // 256
    return images, np.arange(n)


def order(epoch):
    return np.concatenate([y for _, y in epoch]).astype(int).tolist()


def make(n=1000, batch_size=64, **options):
    return Batches(*numbered(n), batch_size, **{'seed': 0, **options})


@pytest.mark.parametrize('batch_size', [1, 64, 250, 1000, 1001])
def test_an_epoch_is_every_example_once(batch_size):
    batches = make(batch_size=batch_size)
    epoch = list(batches)
    assert len(epoch) == len(batches) == -(-1000 // batch_size)
    assert batches.num_examples == 1000
    assert all(len(y) == min(batch_size, 1000) for _, y in epoch[:-1])
    assert sorted(order(epoch)) == list(range(1000)) != order(epoch)
    for X, y in epoch:  # each label came with its own image
        pixels = np.rint(X[:, 0, 0, :2] * 255)
        assert (pixels[:, 0] + 256 * pixels[:, 1] == y).all()


def test_order_depends_on_seed_and_epoch_alone():
    first, again, other = make(), make(batch_size=10), make(seed=1)
    np.random.seed(3)  # noqa: NPY002 (the global state must not matter)
    epochs = [order(first) for _ in range(3)]
    np.random.seed(4)  # noqa: NPY002 (the global state must not matter)
    assert [order(again) for _ in range(3)] == epochs
    assert len({tuple(e) for e in [*epochs, order(other)]}) == 4
    assert order(make(seed=None)) != order(make(seed=None))
    assert order(make(seed=np.int64(0))) == epochs[0]


def test_live_iterators_do_not_disturb_each_other():
    expected = make()
    expected = [order(expected), order(expected)]
    batches = make()
    one, two = iter(batches), iter(batches)
    late, early = list(two), list(one)  # the epoch counts from iter(), not from the first batch
    assert [order(early), order(late)] == expected
    pair = list(zip(make(), make(shuffle=False), strict=True))
    assert [order([a for a, _ in pair]), order([b for _, b in pair])] == [
        expected[0],
        list(range(1000)),
    ]


@pytest.mark.parametrize('done', [0, 1, 4, np.int64(2)])
def test_skipped_epochs_count_as_done(done):
    whole = make()
    expected = [order(whole) for _ in range(6)]
    resumed = make(batch_size=10)
    resumed.skip(done)
    assert [order(resumed) for _ in range(6 - done)] == expected[done:]


def test_skipping_goes_on_from_the_epoch_that_was_begun_last():
    whole = make()
    expected = [order(whole) for _ in range(5)]
    batches = make()
    begun = iter(batches)
    batches.skip(2)
    batches.skip(1)
    assert [order(begun), order(batches)] == [expected[0], expected[4]]
    plain, unseeded = make(shuffle=False), make(seed=None)
    for some in (plain, unseeded):
        some.skip(10**9)
    assert order(plain) == sorted(order(unseeded)) == list(range(1000))


@pytest.mark.parametrize(
    ('bad', 'error'), [(-1, ValueError), (1.0, TypeError), ('2', TypeError), (True, TypeError)]
)
def test_what_cannot_be_skipped_changes_nothing(bad, error):
    batches = make()
    with pytest.raises(error, match=f'epochs must be.*{bad}'):
        batches.skip(bad)
    assert order(batches) == order(make())


def test_a_batch_belongs_to_the_reader():
    images, labels = numbered(100)
    batches = Batches(images, labels, 50, shuffle=False)
    kept = list(batches)
    for X, y in kept:
        X[:], y[:] = 7, 7
    assert order(batches) == list(range(100))
    assert (images == numbered(100)[0]).all()


@pytest.mark.parametrize('dtype', ['float16', 'float32', 'float64', np.float64])
def test_type_and_range(dtype):
    images = np.arange(256, dtype=np.uint8).repeat(784).reshape(256, 28, 28)
    ((X, y),) = Batches(images, np.arange(256) % 10, 256, dtype=dtype, shuffle=False)
    assert X.dtype == y.dtype == dtype
    assert X.shape == (256, 1, 28, 28) and y.shape == (256,)
    assert X.min() == 0 and X.max() == 1
    expected = (np.arange(256, dtype=dtype) / np.dtype(dtype).type(255)).reshape(-1, 1, 1, 1)
    assert (X == expected).all()
    assert y.tolist() == [i % 10 for i in range(256)]


def test_last_batch():
    kept, discarded = make(), make(last_batch='discard')
    assert [len(y) for _, y in kept] == [64] * 15 + [40]
    assert [len(y) for _, y in discarded] == [64] * 15
    assert len(discarded) == 15
    assert len(make(batch_size=250, last_batch='discard')) == 4


@pytest.mark.filterwarnings('ignore::mgpu_helpers.data.OfflineDataWarning')
def test_load_arrays(home):
    train, test = data.load_arrays('mnist', 256, num_examples=1000, seed=3, last_batch='discard')
    found = data.dataset('mnist')
    assert (train.num_examples, test.num_examples) == (1000, 10_000)
    assert (len(train), len(test)) == (3, 40)
    whole = Batches(found.train_images[:1000], found.train_labels[:1000], 256, seed=3)
    for (X, y), (X_expected, y_expected) in zip(train, whole, strict=False):
        assert (X == X_expected).all() and (y == y_expected).all()
    for _ in range(2):  # the test set: whole, and in its own order every time
        assert order(test) == found.test_labels.tolist()
    X, y = next(iter(test))
    assert (X[:, 0] == found.test_images[:256] / np.float32(255)).all()
    train, test = data.load_arrays('mnist', 100, dtype='float64')
    assert train.num_examples == 60_000
    assert next(iter(train))[0].dtype == next(iter(test))[1].dtype == 'float64'


BAD = [
    ({'batch_size': 0}, ValueError, 'batch_size must be at least 1'),
    ({'batch_size': -256}, ValueError, '-256'),
    ({'batch_size': 2.5}, TypeError, 'batch_size.*2.5'),
    ({'batch_size': '256'}, TypeError, "batch_size.*'256'"),
    ({'batch_size': True}, TypeError, 'batch_size.*True'),
    ({'batch_size': None}, TypeError, 'batch_size.*None'),
    ({'seed': -1}, ValueError, 'seed.*-1'),
    ({'seed': 1.5}, TypeError, 'seed.*1.5'),
    ({'seed': True}, TypeError, 'seed.*True'),
    ({'dtype': 'int32'}, ValueError, "'float16', 'float32' or 'float64', got 'int32'"),
    ({'dtype': 'bfloat16'}, ValueError, 'bfloat16'),
    ({'dtype': '>f4'}, ValueError, '>f4'),
    ({'dtype': None}, ValueError, 'None'),
    ({'dtype': 7}, ValueError, '7'),
    ({'last_batch': 'rollover'}, ValueError, "'keep' or 'discard', got 'rollover'"),
    ({'last_batch': None}, ValueError, 'None'),
]
BAD_COUNT = [
    ({'num_examples': 0}, ValueError, 'num_examples must be at least 1'),
    ({'num_examples': -5}, ValueError, '-5'),
    ({'num_examples': 60_001}, ValueError, 'at most 60000.*60001'),
    ({'num_examples': 10.0}, TypeError, 'num_examples.*10.0'),
    ({'num_examples': True}, TypeError, 'num_examples.*True'),
]


@pytest.mark.parametrize(('bad', 'error', 'message'), BAD)
def test_bad_input_to_batches(bad, error, message):
    with pytest.raises(error, match=message):
        make(n=10, **bad)


@pytest.mark.parametrize(('bad', 'error', 'message'), BAD + BAD_COUNT)
def test_bad_input_is_refused_before_the_data_are_looked_for(bad, error, message, home):
    with pytest.raises(error, match=message):
        data.load_arrays(**{'name': 'mnist', 'batch_size': 4, **bad})
    with pytest.raises(ValueError, match='cifar10'):
        data.load_arrays('cifar10', 4)
    assert not home.exists()


IMAGES, LABELS = numbered(6)


@pytest.mark.parametrize(
    ('images', 'labels', 'message'),
    [
        (IMAGES, LABELS[:5], '6 images and 5 labels'),
        (IMAGES[:0], LABELS[:0], 'at least one example'),
        (IMAGES / 255, LABELS, 'images must be uint8 .* got float64'),
        (IMAGES.reshape(6, 784), LABELS, re.escape('(6, 784)')),
        (IMAGES, LABELS / 1, 'labels must be whole numbers .* got float64'),
        (IMAGES, LABELS.reshape(6, 1), re.escape('(6, 1)')),
    ],
)
def test_bad_arrays(images, labels, message):
    with pytest.raises(ValueError, match=message):
        Batches(images, labels, 2)


def test_no_batch_at_all_is_refused():
    with pytest.raises(ValueError, match="batch_size 7 with last_batch='discard'.*6 examples"):
        Batches(IMAGES, LABELS, 7, last_batch='discard')
