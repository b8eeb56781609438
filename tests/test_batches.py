"""Batches: what an epoch is, what a batch looks like, what is refused."""

import numpy as np
import pytest

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


def test_an_epoch_is_every_example_once():
    for batch_size in (1, 64, 250, 1001):
        batches = make(batch_size=batch_size)
        epoch = list(batches)
        assert len(epoch) == len(batches) == -(-1000 // batch_size)
        assert all(len(y) == batch_size for _, y in epoch[:-1])
        assert sorted(order(epoch)) == list(range(1000)) != order(epoch)
        groups = list(make(batch_size=batch_size).groups(3))  # the same in longer arrays
        assert order(groups) == order(epoch) and len(groups) == -(-len(epoch) // 3)
        for X, y in epoch:  # each label came with its own image
            pixels = np.rint(X[:, 0, 0, :2] * 255)
            assert (pixels[:, 0] + 256 * pixels[:, 1] == y).all()


def test_order_depends_on_seed_and_epoch_alone():
    first, again, other = make(), make(batch_size=10, seed=np.int64(0)), make(seed=1)
    np.random.seed(3)  # noqa: NPY002 (the global state must not matter)
    epochs = [order(first) for _ in range(3)]
    np.random.seed(4)  # noqa: NPY002 (the global state must not matter)
    assert [order(again) for _ in range(3)] == epochs
    assert len({tuple(e) for e in [*epochs, order(other)]}) == 4
    assert order(make(seed=None)) != order(make(seed=None))


def test_live_iterators_do_not_disturb_each_other():
    whole, batches = make(), make()
    expected = [order(whole), order(whole)]
    one, two = iter(batches), iter(batches)
    late, early = list(two), list(one)  # the epoch counts from iter(), not from the first batch
    assert [order(early), order(late)] == expected


def test_skipped_epochs_count_as_done():
    whole = make()
    expected = [order(whole) for _ in range(6)]
    for done in (0, 1, np.int64(4)):
        resumed = make(batch_size=10)
        resumed.skip(done)
        assert [order(resumed) for _ in range(6 - done)] == expected[done:]
    batches = make()
    begun = iter(batches)  # skipping goes on from the epoch that was begun last
    batches.skip(2)
    batches.skip(1)
    with pytest.raises(ValueError, match='epochs must be.*-1'):
        batches.skip(-1)
    assert [order(begun), order(batches)] == [expected[0], expected[4]]
    plain = make(shuffle=False)
    plain.skip(10**9)
    assert order(plain) == list(range(1000))


def test_type_range_and_that_a_batch_belongs_to_the_reader():
    images = np.arange(256, dtype=np.uint8).repeat(784).reshape(256, 28, 28)
    for dtype in ('float32', 'float64'):
        expected = (np.arange(256, dtype=dtype) / np.dtype(dtype).type(255)).reshape(-1, 1, 1, 1)
        batches = Batches(images, np.arange(256), 256, dtype=dtype, shuffle=False)
        for _ in range(2):
            ((X, y),) = batches
            assert X.dtype == y.dtype == dtype
            assert X.shape == (256, 1, 28, 28) and y.tolist() == list(range(256))
            assert (X == expected).all() and X.max() == 1
            X[:], y[:] = 7, 7


@pytest.mark.filterwarnings('ignore::mgpu_helpers.data.OfflineDataWarning')
def test_load_arrays(home):
    train, test = data.load_arrays('mnist', 256, num_examples=1000, seed=3, dtype='float64')
    mnist = data.dataset('mnist')
    assert (train.num_examples, test.num_examples, len(test)) == (1000, 10_000, 40)
    whole = Batches(mnist.train_images[:1000], mnist.train_labels[:1000], 256, 3, 'float64')
    for (X, y), (X_expected, y_expected) in zip(train, whole, strict=True):
        assert (X == X_expected).all() and (y == y_expected).all()
    for _ in range(2):  # the test set: whole, and in its own order every time
        assert order(test) == mnist.test_labels.tolist()
    assert (next(iter(test))[0][:, 0] == mnist.test_images[:256] / 255).all()
    assert data.load_arrays('mnist', 100)[0].num_examples == 60_000
