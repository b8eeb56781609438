"""What a bad value is told: its name, what was expected, what it is; and nothing is changed."""

from functools import partial

import pytest

import mgpu_helpers as mgpu
from mgpu_helpers import arguments

HUGE = 10**400  # no float can hold it


def refused(*table):
    """Each row: the type of the error, the words that a student needs, the call."""
    for kind, words, function, *args in table:
        with pytest.raises(kind, match=words) as caught:
            function(*args)
        assert 'Stack trace' not in str(caught.value)  # of a library


def refused_changes(function, good, *table):
    """Each row: the type of the error, its words, and which good arguments become bad ones."""
    for kind, words, change in table:
        refused((kind, words, partial(function, **good | change)))


def test_numbers_names_and_functions():
    above, least, whole = arguments.positive_number, arguments.not_negative, arguments.positive_int
    refused(
        (ValueError, 'lr must be a number above 0, not an int', above, 'lr', HUGE),
        (ValueError, 'not nan', above, 'lr', float('nan')),
        (ValueError, 'not inf', above, 'lr', float('inf')),
        (TypeError, "lr must be a number above 0, not '0.1'", above, 'lr', '0.1'),
        (ValueError, 'lr must be a number of at least 0, not -1e-09', least, 'lr', -1e-9),
        (ValueError, 'n must be at least 1, not an int', whole, 'n', -HUGE),
        (TypeError, 'n must be an integer of at least 1, not 2.0', whole, 'n', 2.0),
        (ValueError, 'n must be at most 5, not 6', partial(whole, most=5), 'n', 6),
        (TypeError, 'integer of at least 0, not True', arguments.whole_number, 'n', True),
        (ValueError, 'divisible by heads, 3, not 4', arguments.divisible, 'width', 4, 3, 'heads'),
        (ValueError, r'kind must be one of a, b, not \[\]', arguments.one_of, 'kind', [], 'ab'),
        (TypeError, "must be a function of X, not 'f'", arguments.function, 'step', 'f', 'of X'),
    )


RUN = {'num_gpus': 2, 'batch_size': 256, 'lr': 0.2}
SWAPPED = {'num_gpus': 256, 'batch_size': 2}
RUNS = (  # what no ``train`` begins with
    (ValueError, r'num_gpus must be at least 1, not 0', {'num_gpus': 0}),
    (TypeError, r'num_gpus must be an integer.*True', {'num_gpus': True}),
    (TypeError, r'batch_size must be an integer.*2.5', {'batch_size': 2.5}),
    (ValueError, r'at least 256, one .*num_gpus, batch_size\?\), not 2', SWAPPED),
    (ValueError, r'lr must be a number above 0', {'lr': 0}),
    (ValueError, r'num_epochs must be at least 1', {'num_epochs': 0}),
    (ValueError, r'num_examples.*60001', {'num_examples': 60_001}),
    (ValueError, r'seed.*-1', {'seed': -1}),
)


def wrong_classes(array):
    """Labels that are no classes, though MXNet takes each of them for one."""
    for value in (10, -1, 2.5, float('nan')):
        words = rf'y must be classes, integers from 0 to 9, not \[{value}'
        yield ValueError, words, {'y': array([0, value, 1, 2])}


def runs_on(device):
    return (
        *RUNS,
        (ValueError, r'num_gpus must be 1, .* length of devices, not 2', {'devices': [device]}),
        (ValueError, r'devices must be all different, .*0', {'devices': [device] * 2}),
        (TypeError, r"devices\[0\] must be a device.*'cpu'", {'devices': ['cpu', 'gpu']}),
        (TypeError, r'devices must be a list of devices', {'devices': device}),
    )


def refuse_what_chapter_1_refuses(m, X, y, a, b, numpy, *more):
    """``m`` is the chapter, ``a`` and ``b`` two devices."""
    params, accuracy = m.init_params(seed=0), m.evaluate_accuracy
    one, two = m.get_params(params, a), m.get_params(params, b)
    shared, of_64 = [*one[:4], *two[4:]], m.init_params(dtype='float64')
    refused_changes(
        m.train_batch,
        {'X': X, 'y': y, 'device_params': [one, two], 'devices': [a, b], 'lr': 0.1},
        (ValueError, r'\[1\]\[0\] is shared, .*\[get_params', {'device_params': [one] * 2}),
        (ValueError, r'\[1\]\[0\] is shared, or not on', {'device_params': [one, shared]}),
        (ValueError, r'2 replicas, such as \[get_params.*, not 1', {'device_params': [one]}),
        (ValueError, r'\[0\]\[0\] has no gradient', {'device_params': [params, two]}),
        (TypeError, r'device_params\[0\] must be a list of arrays', {'device_params': one}),
        (ValueError, r'label per example of X \(4,\) \(are X and y swapped\?\)', {'X': y, 'y': X}),
        (ValueError, r'label per example of X \(4, 1, .*, not \(3,\)', {'y': y[:3]}),
        (ValueError, r'y must be labels \(n,\), one per .*\(4, 1\)', {'y': y.reshape(-1, 1)}),
        (ValueError, r'y must be classes, integers from 0 to 9, not \[10', {'y': y + 10}),
        (
            TypeError,
            r"devices\[0\] must be a device, such as .*'cpu\(0\)'",
            {'devices': ['cpu(0)', b]},
        ),
        (TypeError, r'devices\[0\] must be .*, not 0', {'devices': [0, 1]}),
        (ValueError, r'devices must be .*at least one, not \[\]', {'devices': []}),
        (ValueError, r'devices must be all different', {'devices': [a, a]}),
        (TypeError, r'the batch must be an array from .*, such as .*numpy', {'X': numpy}),
        (TypeError, r'y must be an array from .*numpy', {'y': numpy[:, 0, 0, 0]}),
        (ValueError, r'X must be images \(n, 1, 28, 28\), not \(\d, 28, 28\)', {'X': X[:, 0]}),
        (TypeError, r"sync must be a function of all gradients.*, not 'ring'", {'sync': 'ring'}),
        (TypeError, r'lr must be a number above 0, not \[', {'lr': [a, b]}),
        *more,
    )
    # Seen in the middle of the step.
    again = [m.get_params(params, d) for d in (a, b)]
    args = X, y, again, [a, b], 0.1, m.allreduce
    refused((TypeError, r'data must .*sync_gradients.*but \[0\] is a list', m.train_batch, *args))
    refused(
        (TypeError, r'data must be a list of arrays, one per device .*, not', m.allreduce, X),
        (ValueError, r'data must be .* per device .*, not \[\]', m.allreduce, []),
        (TypeError, r'\[0\] is None \(no gradient\?', m.allreduce, [None, None]),
        (TypeError, r'X must be .*, not .*float32 on no device', m.lenet, numpy, one),
        (TypeError, r"X must be .*float64 on .*parameters, not '.*float32 on", m.lenet, X, of_64),
        (TypeError, r"params must be LeNet's 8 arrays, .*, not a list of 7", m.lenet, X, one[:7]),
        (TypeError, r'grads must be grads\[c\]\[i\], a list', m.sync_gradients, one),
        (TypeError, r'grads\[0\] .*\[0\] is None', m.sync_gradients, [[None], [None]]),
        (TypeError, r"device must be .*, not 'cpu\(1\)'", m.get_params, params, 'cpu(1)'),
        (TypeError, r'params must be .*from init_params, not', m.get_params, a, params),
        (ValueError, r'scale must be a number above 0', m.init_params, 0),
        (ValueError, r'seed must be at least 0, not -1', m.init_params, 0.1, -1),
        (ValueError, r"dtype must be one of .*, not 'int8'", m.init_params, 0.1, 0, 'int8'),
        (ValueError, r'lr must be a number above 0', m.sgd, one, 0, 4),
        (ValueError, r'are X and y swapped', m.split_batch, y, X, [a, b]),
        (TypeError, r'net must be a function of images', accuracy, one, [(X, y)], a),
        (TypeError, r'an iterator over batches', accuracy, m.lenet, (X, y), a),
        (TypeError, r'device must be .*, not \[', accuracy, m.lenet, [(X, y)], [a, b]),
        (ValueError, r'empty or used up.* at least 1, not 0', accuracy, m.lenet, [], a),
        (ValueError, r'\(n,\).*\(4, 1\)', accuracy, len, [(X, y.reshape(4, 1))], a),
        (ValueError, r'labels \(n,\).*\(1,\)', accuracy, len, [(X, y[:1])], a),
        (TypeError, r'losses must be .*not None .*return losses', m.total_loss, [None]),
        (TypeError, r'the number of devices must be .*2.5', m.devices, 2.5),
        (ValueError, r'stand-ins must be at most 256, not 100000', m.devices, 10**5),
        (TypeError, r'sync must be a function', partial(m.train, sync='ring'), 2, 256, 0.2),
    )
    refused_changes(m.train, RUN, *runs_on(a))
    for start, *copies in zip(params, one, two, strict=True):  # nothing was changed
        assert all(((p - start) ** 2).sum() == 0 for p in copies)
        assert all(p.grad is None or (p.grad**2).sum() == 0 for p in copies)


def test_what_mxnets_chapters_refuse(capsys):
    mx = pytest.importorskip('mxnet', reason='MXNet is not installed')
    g, c, nd, nn = mgpu.gluon, mgpu.collectives, mx.nd, mx.gluon.nn
    X, y, devices = nd.ones((4, 1, 28, 28)), nd.zeros(4), [mx.cpu(0), mx.cpu(1)]
    refuse_what_chapter_1_refuses(mgpu, X, y, *devices, X.asnumpy(), *wrong_classes(nd.array))
    nets = net, another, moved, one_device, halves = [g.lenet() for _ in range(5)]
    for some, there in zip(nets, (devices, devices, devices, devices[:1])):
        g.prepare(some, there)
        some(X)
    stale, three = g.make_trainer(moved, 0.1), [*devices, mx.cpu(2)]
    g.prepare(moved, three)
    halves[:4].initialize(ctx=devices)
    halves[4:].initialize(ctx=devices[:1])
    one_device.collect_params().setattr('grad_req', 'null')
    before = [p.list_data()[0].asnumpy() for p in net.collect_params().values()]
    trainer, theirs = g.make_trainer(net, 0.1), g.make_trainer(another, 0.1)
    refused_changes(
        g.train_batch,
        {'X': X, 'y': y, 'net': net, 'devices': devices, 'trainer': trainer},
        (ValueError, r'are X and y swapped', {'X': y, 'y': X}),
        (ValueError, r'at least 2 examples, one per device, not 1', {'X': X[:1], 'y': y[:1]}),
        (
            ValueError,
            r'must be \[cpu\(0\), cpu\(1\)\], like the network',
            {'devices': [*devices, mx.cpu(2)]},
        ),
        (RuntimeError, r"'cnn_conv0_weight' has not been initialized", {'net': g.lenet()}),
        (TypeError, r'net must be a Gluon network.*, not', {'net': g.lenet}),
        (ValueError, r'trainer must be .*make_trainer\(net, lr\).*, not', {'trainer': 0.1}),
        *wrong_classes(nd.array),
        (ValueError, r'trainer must be made for this network', {'trainer': theirs}),
        (TypeError, r'loss must be a function', {'loss': 'l2'}),
        # MXNet itself ends the process here, by a segmentation fault.
        (ValueError, r'make a new', {'net': moved, 'devices': three, 'trainer': stale}),
    )
    params = mgpu.init_params(seed=0)
    replicas = [mgpu.get_params(params, d) for d in devices]
    gpus, unready, of_one = (
        [mx.gpu(98), mx.gpu(99)],
        g.lenet(),
        r'in the last batch .* at least 2, not 1',
    )
    synced = g.resnet18_28(10, partial(mx.gluon.contrib.nn.SyncBatchNorm, num_devices=2))
    g.prepare(synced, devices[:1])  # on one device it may be
    refused(
        (TypeError, r'such as nd.array\(x\)', mgpu.split_and_load, X.asnumpy(), devices),
        (ValueError, of_one, partial(g.train, num_examples=65), unready, 2, 64, 0.1),
        (TypeError, r'num_', partial(g.train, load_data=lambda *_: ([], [])), unready, 2, 64, 0.1),
        (ValueError, r'all different', g.prepare, unready, devices[:1] * 2),
        (RuntimeError, r'not been initialized', g.make_trainer, unready, 0.1),  # left as it was
        (TypeError, r'num_gpus.* not a HybridSequential$', mgpu.train, unready, 2, 0.1),
        (ValueError, r'parameters of net must be', g.evaluate_accuracy_gpus, nn.Flatten(), []),
        (ValueError, r'initialize the whole network', g.evaluate_accuracy_gpus, halves, []),
        (ValueError, r'parameters with a gradient must be', g.make_trainer, one_device, 0.1),
        (ValueError, r'SyncBatchNorm hangs', g.prepare, synced, devices),
        (ValueError, r'label must be a list of arrays, one per', g.forward_backward, net, [X], []),
        (ValueError, r'shards .* same, not 2, 1: split', g.forward_backward, net, [X, X], [y]),
        (ValueError, r'y must be labels \(n,\)', g.evaluate_accuracy_gpus, net, [(X, y[:1])]),
        (ValueError, r'not \(4, 1\)', g.evaluate_accuracy_gpus, net, [(X, y.reshape(4, 1))]),
        (ValueError, r'that MXNet .* gpu\(98\)', partial(mgpu.train, devices=gpus), 2, 256, 0.1),
        (ValueError, r'devices must be at most 1024', c.count, c.allreduce_ring, 3000, 1),
        (ValueError, r'size must be at most 2500000,', c.count, c.allreduce_ring, 4, 10**12),
        (ValueError, r'sizes\[1\] must be .*, not nan', c.fill_buckets, [1, float('nan')], 10),
        (TypeError, r'net must be a Gluon network', g.prepare, nn.Dense, devices),  # a class
        (TypeError, r'lr must be a number above 0', g.make_trainer, net, 'sgd'),
        (TypeError, r'an iterator over batches', g.evaluate_accuracy_gpus, net, (X, y)),
        (TypeError, r'net must be a Gluon network', g.average_running_stats, replicas),
        (TypeError, r'load_data must be', partial(g.train, load_data='mnist'), net, 2, 256, 0.1),
        (TypeError, r'data must be a list of arrays, one', g.forward_backward, net, X, y),
        (TypeError, r'num_classes must be an integer', g.resnet18_28, 'ten'),
        (TypeError, r'arrays must be a list of arrays', c.Bucket, X),
        (TypeError, r"algorithm must be a function.*, not 'ring'", c.sync_with, 'ring'),
        # Each `.grad` is a new object around the same memory.
        (ValueError, r'listed twice', c.allreduce_ring, [p.grad for p in replicas[0][:1] * 2]),
        (TypeError, r'seconds must be a function', c.slow_links(0.1).__enter__),
    )
    refused_changes(partial(g.train, net), RUN, *runs_on(devices[0]))
    for param, start in zip(net.collect_params().values(), before, strict=True):
        assert all((p.asnumpy() == start).all() for p in param.list_data())
        assert not any(grad.asnumpy().any() for grad in param.list_grad())
    assert 'running on' not in capsys.readouterr().out


def test_what_pytorchs_chapters_refuse():
    torch = pytest.importorskip('torch', reason='PyTorch is not installed')
    pt = mgpu.pytorch
    X, y = torch.ones(4, 1, 28, 28), torch.zeros(4).long()
    refused(
        (TypeError, r"function must be .* on each rank, not 'train'", pt.launch, 'train', 2),
        (ValueError, r'timeout must be a number above 0', partial(pt.launch, timeout=-1), print, 2),
        (ValueError, r'stage must be at most 1, not 9', pt.one_f_one_b_order, 4, 9, 2),
        (RuntimeError, r'no process group: call .* in launch', pt.my_part, y, [[0], [1]]),
        (
            RuntimeError,
            r'no process group: call .* in launch',
            pt.ddp_step,
            X,
            y,
            torch.nn.Flatten(),
            None,
        ),
        (TypeError, r"LeNet's 8 arrays", pt.build_lenet, pt.init_params()[:3]),
        (ValueError, r'num_examples.*60001', pt.load_data_fashion_mnist, 64, 60_001),
    )
