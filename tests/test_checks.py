"""What a bad value is told: its name, what it is, what was expected, whatever it is."""

from functools import partial

import pytest

import mgpu_helpers as mgpu
from mgpu_helpers import checks

HUGE = 10**400  # no float can hold it


def refused(words, function, *args, **options):
    """The call raises in the words that a student needs, and not in those of a library."""
    with pytest.raises((TypeError, ValueError, RuntimeError), match=words) as caught:
        function(*args, **options)
    assert 'Stack trace' not in str(caught.value)


def test_numbers_are_refused_in_a_sentence():
    for check, value, words in (
        (checks.positive_number, HUGE, 'lr must be a number above 0, not an integer of 1,329 bits'),
        (
            checks.positive_number,
            -HUGE,
            'lr must be a number above 0, not an integer of 1,329 bits',
        ),
        (checks.positive_number, 10**5000, 'not an integer of 16,610 bits'),  # str() of it raises
        (checks.positive_number, float('nan'), 'not nan'),
        (checks.positive_number, float('inf'), 'not inf'),
        (checks.not_negative, HUGE, 'at least 0, not an integer of 1,329 bits'),
        (checks.positive_int, -HUGE, 'lr must be at least 1, not an integer of 1,329 bits'),
        (checks.positive_number, '0.1', "lr must be a number above 0, not '0.1'"),
        (checks.positive_int, 2.0, 'lr must be an integer of at least 1, not 2.0'),
        (checks.whole_number, True, 'lr must be an integer of at least 0, not True'),
    ):
        refused(words, check, 'lr', value)


RUN = {'num_gpus': 2, 'batch_size': 256, 'lr': 0.2}
RUNS = (  # what no ``train`` begins with
    (r'num_gpus must be at least 1, not 0', {'num_gpus': 0}),
    (r'num_gpus must be an integer.*True', {'num_gpus': True}),
    (r'batch_size must be an integer.*2.5', {'batch_size': 2.5}),
    (r'lr must be a number above 0', {'lr': 0}),
    (r'num_epochs must be at least 1', {'num_epochs': 0}),
    (r'num_examples.*60001', {'num_examples': 60_001}),
    (r'seed.*-1', {'seed': -1}),
)


def refuse_runs(train, device):
    for words, change in (
        *RUNS,
        (r'num_gpus is 2, but devices lists 1', {'devices': [device]}),
        (r'appears more than once', {'devices': [device] * 2}),
        (r"devices\[0\] must be a device, .*, not 'cpu'", {'devices': ['cpu', 'gpu']}),
        (r'devices must be a list of devices', {'devices': device}),
    ):
        refused(words, train, **RUN | change)


def refuse_a_students_mistakes(m, X, y, a, b, numpy):
    """What chapters 1 and 5 have in common: ``m`` is the chapter, ``a`` and ``b`` two devices."""
    params = m.init_params(seed=0)
    one, two = m.get_params(params, a), m.get_params(params, b)
    good = {'X': X, 'y': y, 'device_params': [one, two], 'devices': [a, b], 'lr': 0.1}
    for words, change in (
        (r'\[1\]\[0\].* of its own, \[get_params', {'device_params': [one] * 2}),
        (r'\[1\]\[0\].* of its own, \[get_params', {'device_params': [one, [*one[:4], *two[4:]]]}),
        (r'are X and y swapped', {'X': y, 'y': X}),
        (r"devices\[0\] must be a device, one of.*, not 'cpu\(0\)'", {'devices': ['cpu(0)', 'x']}),
        (r'devices\[0\] must be .*, not a list', {'devices': [one, two], 'device_params': [a, b]}),
        (r'devices\[0\] must be .*, not 0', {'devices': [0, 1]}),
        (r'device_params\[0\] must be a list of arrays.*, not', {'device_params': one}),
        (r'2 replicas of the parameters for 1 devices: make one', {'devices': [a]}),
        (r'devices must be .*at least one, not \[\]', {'devices': []}),
        (r'appears more than once', {'devices': [a, a]}),
        (r'X has the shape \(4, .* y \(3,\)', {'y': y[:3]}),
        (r'params\[0\]\[0\] can have no gradient: call its', {'device_params': [params, two]}),
        (r'the batch is an array of NumPy, but .*0\)? is a device of .*convert it', {'X': numpy}),
        (r'y is an array of NumPy', {'y': numpy[:, 0, 0, 0]}),
        (r'X must be an array or a tensor, not \[0\]', {'X': [0]}),
        (r'LeNet takes images X \(n, 1, 28, 28\), not \(\d, 28, 28\)', {'X': X[:, 0]}),
        (r'y must be labels \(n,\), a number for each.*\(4, 1\)', {'y': y.reshape(-1, 1)}),
        (
            r'data must .*sync_gradients.*but \[0\] is a list',  # found in the middle of the step
            {'sync': m.allreduce, 'device_params': [m.get_params(params, d) for d in (a, b)]},
        ),
        (r"sync must be a function of all gradients.*, not 'ring'", {'sync': 'ring'}),
        (r'lr must be a number above 0, not \[', {'lr': [a, b]}),
    ):
        refused(words, m.train_batch, **good | change)
    for words, function, *args in (
        (r'data must be a list of arrays, one per device .*, not', m.allreduce, X),
        (r'data must be a list of arrays', m.allreduce, None),
        (r'the list of arrays is empty', m.allreduce, []),
        (r'different shapes.*\(20, 1, 3, 3\).*\(20,\)', m.allreduce, one[:2]),
        (r'float32.*float64', m.allreduce, [one[0], m.init_params(dtype='float64')[0]]),
        (r'\[0\] is None \(a gradient\?', m.allreduce, [None, None]),
        (r'data\[0\] and data\[1\] are .*is one replica listed twice', m.allreduce, [one[0]] * 2),
        (r'an array of NumPy, which is on no device: convert', m.allreduce, [numpy, numpy]),
        (r'X is an array of NumPy, which is on no device: convert', m.lenet, numpy, one),
        (r'grads must be grads\[c\]\[i\], a list', m.sync_gradients, one),
        (r'grads\[0\] .*\[0\] is None', m.sync_gradients, [[None], [None]]),
        (r"device must be .*, not 'cpu\(1\)'", m.get_params, params, 'cpu(1)'),
        (r'params must be a list of arrays, as init_params gives, not', m.get_params, a, params),
        (r'scale must be a number above 0', m.init_params, 0),
        (r'seed must be at least 0, not -1', m.init_params, 0.1, -1),
        (r"dtype must be one of float32, float64, not 'int8'", m.init_params, 0.1, 0, 'int8'),
        (r'float32, .*float64: load', m.lenet, X, m.init_params(dtype='float64')),
        (r'LeNet has 8 parameters, not 7', m.lenet, X, one[:7]),
        (r'X must be an array or a tensor, not a list', m.lenet, one, X),
        (r'params\[0\] has no gradient', m.sgd, params, 0.1, 4),
        (r'lr must be a number above 0', m.sgd, one, 0, 4),
        (r'are X and y swapped', m.split_batch, y, X, [a, b]),
        (r'net must be a function of images', m.evaluate_accuracy, one, [(X, y)], a),
        (r'an iterator over batches', m.evaluate_accuracy, m.lenet, (X, y), a),
        (r'an iterator over batches', m.evaluate_accuracy, m.lenet, X, a),
        (r'device must be .*, not \[.*\]', m.evaluate_accuracy, m.lenet, [(X, y)], [a, b]),
        (r'the number of devices must be .*2.5', m.devices, 2.5),
        (r'the number of the GPU must be .*-1', m.try_gpu, -1),
        (r'100000 stand-ins are too many.*use at most 256', m.train, 10**5, 256, 0.2),
        (r'an integer of 1,329 bits stand-ins are too many', m.devices, HUGE),
        (r'no examples: the iterator', m.evaluate_accuracy, m.lenet, [], a),
        (r'no examples|no batch', m.train_epoch, [], m.train_batch),
        (r'step must be a function', m.train_epoch, m.train_batch, [(X, y)]),
        (r'gave None.*return losses', m.train_epoch, [(X, y)], lambda X, y: None),
        (r"dtype must be one of .* not 'int8'", partial(m.train, dtype='int8'), 2, 256, 0.2),
        (r"sync must be a function.*, not 'ring'", partial(m.train, sync='ring'), 2, 256, 0.2),
    ):
        refused(words, function, *args)
    refuse_runs(m.train, a)
    for start, *copies in zip(params, one, two, strict=True):  # nothing was changed
        assert all(((p - start) ** 2).sum() == 0 for p in copies)
        assert all(p.grad is None or (p.grad**2).sum() == 0 for p in copies)


def test_a_students_mistakes_in_mxnet(capsys):
    mx = pytest.importorskip('mxnet', reason='MXNet is not installed')
    g, c, nd = mgpu.gluon, mgpu.collectives, mx.nd
    X, y, devices = nd.ones((4, 1, 28, 28)), nd.zeros(4), [mx.cpu(0), mx.cpu(1)]
    refuse_a_students_mistakes(mgpu, X, y, *devices, X.asnumpy())
    net, another = g.lenet(), g.lenet()
    g.prepare(net, devices)
    g.prepare(another, devices)
    net(X), another(X)
    before = [p.list_data()[0].asnumpy() for p in net.collect_params().values()]
    trainer = g.make_trainer(net, 0.1)
    wrong = mx.gluon.Trainer(net.collect_params(), 'sgd', kvstore='devise')
    good = {'X': X, 'y': y, 'net': net, 'devices': devices, 'trainer': trainer}
    for words, change in (
        (r'are X and y swapped', {'X': y, 'y': X}),
        (r'the batch is an array of NumPy', {'X': X.asnumpy()}),
        (r'X has the shape \(4, .* y \(3,\)', {'y': y[:3]}),
        (r'a batch of 1 over 2 devices', {'X': X[:1], 'y': y[:1]}),
        (r'initialized on \[cpu\(0\), cpu\(1\)\], not on', {'devices': [*devices, mx.cpu(2)]}),
        (r'cnn_conv0_weight is not initialized', {'net': g.lenet()}),
        (r'net must be a Gluon network.*, not', {'net': g.lenet}),
        (r'net must be a Gluon network.*, not', {'net': trainer, 'trainer': net}),
        (r'trainer must be .*make_trainer\(net, lr\).*, not', {'trainer': 0.1}),
        (r"key-value store must be one of local, device.*'devise'", {'trainer': wrong}),
        (r'another network', {'trainer': g.make_trainer(another, 0.1)}),
        (r'loss must be a function', {'loss': 'l2'}),
    ):
        refused(words, g.train_batch, **good | change)
    params = mgpu.init_params(seed=0)
    replicas = [mgpu.get_params(params, d) for d in devices]
    far, unready = mx.cpu(3), g.lenet()
    batch_of_1 = r'in batches of {} end in a batch of 1, too few for 2 devices'
    for words, function, *args in (
        (r'7 examples.*2 devices.*even_split=False', mgpu.split_and_load, nd.arange(7), devices),
        (r'convert it, nd.array', mgpu.split_and_load, X.asnumpy(), devices),
        (batch_of_1.format(64), partial(g.train, num_examples=65), unready, 2, 64, 0.1),
        (batch_of_1.format(1), g.train, unready, 2, 1, 0.1),
        (r'num_examples', partial(g.train, load_data=lambda *_: ([], [])), unready, 2, 64, 0.1),
        (r'more than once', g.prepare, unready, devices[:1] * 2),
        (r'not initialized', g.make_trainer, unready, 0.1),  # left as it was
        (r'num_gpus.* not a HybridSequential$', mgpu.train, unready, 2, 0.1),
        (r'Flatten has no parameters', g.evaluate_accuracy_gpus, mx.gluon.nn.Flatten(), []),
        (r'1 shards of data and 0 of labels', g.forward_backward, net, [X], []),
        (r'on no device.*initialized on', g.forward_backward, net, [X.asnumpy()], [y]),
        (r'X has the shape \(4, .* y \(3,\)', g.forward_backward, net, [X], [y[:3]]),
        (r'on cpu\(3\)', g.forward_backward, net, *([x.copyto(far)] for x in (X, y))),
        (r'and its labels are on cpu\(3\)', g.forward_backward, net, [X], [y.copyto(far)]),
        (r'net must be a Gluon network', g.prepare, mx.gluon.nn.Dense, devices),  # a class
        (r'devices must be a list of devices.*, not a Hybrid', g.prepare, devices, net),
        (r'net must be a Gluon network', g.make_trainer, net.collect_params(), 0.1),
        (r'lr must be a number above 0', g.make_trainer, net, 'sgd'),
        (r'an iterator over batches.*, not a Hybrid', g.evaluate_accuracy_gpus, [(X, y)], net),
        (r'an iterator over batches', g.evaluate_accuracy_gpus, net, (X, y)),
        (r'net must be a Gluon network', g.average_running_stats, replicas),
        (r'net must be a Gluon network', g.train, g.lenet, 2, 256, 0.1),
        (r'num_gpus must be an integer', g.train, net, devices, 256, 0.1),
        (r'load_data must be a function', partial(g.train, load_data='mnist'), net, 2, 256, 0.1),
        (r'data must be a list of arrays, one per device', g.forward_backward, net, X, y),
        (r'num_classes must be an integer', g.resnet18_28, 'ten'),
        (r'arrays must be a list of arrays', c.Bucket, X),
        (r"algorithm must be a function.*, not 'ring'", c.sync_with, 'ring'),
        # Each `.grad` is a new object around the same memory.
        (r'is one replica listed twice', c.allreduce_ring, [p.grad for p in replicas[0][:1] * 2]),
        (r'data must be a list of arrays.*\[0\] is a list', c.allreduce_ring, replicas),
        (r'seconds must be a function', c.slow_links(0.1).__enter__),
    ):
        refused(words, function, *args)
    refuse_runs(partial(g.train, net), devices[0])
    for param, start in zip(net.collect_params().values(), before, strict=True):
        assert all((p.asnumpy() == start).all() for p in param.list_data())
        assert not any(grad.asnumpy().any() for grad in param.list_grad())
    assert 'running on' not in capsys.readouterr().out


def test_a_students_mistakes_in_pytorch(capsys):
    torch = pytest.importorskip('torch', reason='PyTorch is not installed')
    pt = mgpu.pytorch
    X, y, devices = torch.ones(4, 1, 28, 28), torch.zeros(4).long(), [pt.StandIn(0), pt.StandIn(1)]
    refuse_a_students_mistakes(pt, X, y, *devices, X.numpy())
    replicas = [pt.get_params(pt.init_params(seed=0), d) for d in devices]
    run = lambda devices: pt.train(2, 256, 0.2, devices=devices)  # noqa: E731
    step = partial(pt.train_batch, device_params=replicas, devices=devices, lr=0.1)
    for words, function, *args in (
        (r'y must be of the type torch.int64, not torch.float32: .*y.long', step, X, y.float()),
        (r'devices must be a list of devices', pt.scatter, X, 2),
        (r'a batch of 0 over 2 devices', pt.scatter, X[:0], devices),
        (r"function must be .* in each process, not 'train'", pt.launch, 'train', 2),
        (r'timeout must be a number above 0', partial(pt.launch, timeout=-1), print, 2),
        (r"dtype .* not 'int8'", partial(pt.train_ddp, dtype='int8'), 2, 256, 0.2),
        (r"type='cpu'.*none of .* GPUs .*StandIn", run, [torch.device('cpu', i) for i in range(2)]),
        (r'index=99.*none of the', run, [torch.device('cuda', 99), devices[0]]),
        (r'devices must be a list', pt.on_each, 2, print, [0, 1]),
        (r'function must be', pt.on_each, devices, [0, 1], print),
        (r"devices\[0\] must be .*, not 'cpu'", pt.on_each, ['cpu'], print, [0]),
        (r'no group: call .* in launch', pt.evaluate_ddp, torch.nn.Flatten(), [(X, y)]),
        (r'no group: call .* in launch', pt.ddp_step, X, y, torch.nn.Flatten(), None),
        (r'num_gpus must be an integer', pt.train_ddp, devices, 256, 0.1),
        (r'8 parameters', pt.build_lenet, replicas[0][:3]),
        (r'device', pt.synchronize, ['cpu']),
        (r'is one replica listed twice', pt.allreduce, [replicas[0][0], replicas[0][0].detach()]),
        (r"the number of the stand-in must be an integer.*'1'", pt.StandIn, '1'),
    ):
        refused(words, function, *args)
    for words, change in RUNS:
        refused(words, pt.train_ddp, **RUN | change)
    assert 'running on' not in capsys.readouterr().out
