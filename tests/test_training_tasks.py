"""Chapter 6's scripts with a reader's task, imported: what it may be, and what is said of it."""

import json

import pytest

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')

# A table, batches that are dicts, an order with repetitions, a path among the options.
TABLE = """
from pathlib import Path
import torch
from torch import nn
from tasks import some

SCORE = 'error'
class Net(nn.Sequential):
    def forward(self, x):
        assert len(x) <= self.most, 'a larger batch than in training'
        assert self.training or not torch.is_grad_enabled(), 'a backward pass in eval mode'
        return super().forward(x)
def options(add):
    add('--rows', type=some, default=36)
    add('--table', type=Path, default=Path('table.csv'))
    add('--most', type=int, default=100)
class Rows:
    seed = epoch = 0
    def __init__(self, n):
        self.x = torch.arange(4.0 * n).view(n, 4).sin()
    def __len__(self):
        return len(self.x)
    def __getitem__(self, i):
        mirrored = torch.Generator().manual_seed(self.seed + 7 * self.epoch + 31 * int(i))
        sign = torch.rand(1, generator=mirrored).sub(0.5).sign()
        return {'x': sign * self.x[i], 'y': {'sum': self.x[i].sum()}}
def read(args, training):
    return Rows(args.rows)
def order_of(examples, draw):
    n = len(examples)
    return torch.randint(n, (n,), generator=draw)  # some twice, as in weighted sampling
def build(args):
    torch.manual_seed(args.seed)
    net = Net(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    net.most = args.most
    return net
def optimizer_of(net, args):
    return torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
def prepare(batch, args, training):
    return {'x': batch['x'].to(args.real), 'y': batch['y']['sum'].to(args.real)}
def forward(model, batch):
    return model(batch['x']).squeeze(1)
def count_of(batch):
    return len(batch['y'])
def loss_of(output, batch):
    return (output - batch['y']).square().sum()
def score_of(output, batch):
    return (output - batch['y']).abs().sum()
"""


NORMED = """
from tasks import fashion
from tasks.fashion import *
def build(args):
    return fashion.build(args).insert(1, nn.BatchNorm2d(20))
"""


@pytest.mark.parametrize('more', ['', ' --shard'])
def test_running_statistics_are_saved_and_go_on(alone, more):
    (alone.folder / 'normed.py').write_text(NORMED)
    options = f'--task normed.py --limit 192 --batch-size 64 --every 2 --digest{more}'
    whole = alone.run(f'{options} --epochs 2 --checkpoint whole', 2)
    alone.run(f'{options} --epochs 1 --checkpoint twice', 2)
    assert alone.run(f'{options} --epochs 2 --checkpoint twice', 2)[-1] == whole[-1]


@pytest.fixture
def table(alone):
    (alone.folder / 'table.py').write_text(TABLE)
    return alone


def logged(alone, options, ranks, name):
    """Run it; give from its log all losses, norms and scores."""
    alone.run(f'{options} --report 1 --log-file {name}', ranks)
    lines = [json.loads(line) for line in (alone.folder / name).read_text().splitlines()]
    names = 'loss', 'norm', 'lr', 'train_loss', 'test_loss', 'score'
    return torch.tensor([line[k] for line in lines for k in names if k in line], dtype=float)


def compare(alone, options, cases):
    one, far = logged(alone, options, None, 'one'), {}
    for ranks, pieces, more in cases:
        name = f'{ranks}-{pieces}{more}'.replace(' ', '')
        found = logged(alone, f'{options} --accumulate {pieces} {more}', ranks, name)
        far[name] = (found - one).abs().max().item()
    print('largest differences of loss, norm and score:', far)
    assert max(far.values()) < 1e-12


# 50 lines in steps of 16: the last step has two, for three ranks and five micro-batches each.
WORDS = '--task tasks/language.py --limit 50 --batch-size 16 --epochs 1 '
WORDS += '--dtype float64 --clip 0.1 --warmup 2 --dropout 0'
ALL = [(k, n, how) for k in (1, 2, 3) for n in (1, 2, 5) for how in ('', '--shard')]


@pytest.mark.parametrize(
    'cases', [[(3, 5, '--recompute')], pytest.param(ALL, marks=pytest.mark.slow)]
)
def test_tokens_count_whatever_the_ranks_and_micro_batches(alone, cases):
    compare(alone, WORDS, cases)


def test_dicts_an_order_of_its_own_and_workers_that_draw_by_seed_and_epoch(table):
    options = '--task table.py --batch-size 16 --epochs 2 --dtype float64 --most'
    one = logged(table, f'{options} 16', None, 'one')
    two = logged(table, f'{options} 8 --num-workers 2', 2, 'two')
    assert (one - two).abs().max() < 1e-12
    table.run(f'{options} 8 --checkpoint run', 2)
    _, again = table.run(
        f'{options} 8 --checkpoint run --timeout 86400', 2
    )  # a path is no obstacle
    assert again.startswith('epoch 2,')


def change(alone, *pairs):
    text = TABLE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    (alone.folder / 'changed.py').write_text(text)
    return '--task changed.py --batch-size 16 --epochs 2 '


def test_what_a_task_lacks_is_said_in_a_sentence(ranks, tmp_path):
    for old, new, said in (
        ('def build(', 'def make(', r'has no build\(args\), which gives the network'),
        ('(output, batch)', '(output)', r'loss_of\(output, batch\) .* but: too many positional'),
    ):
        (tmp_path / 'table.py').write_text(TABLE.replace(old, new))
        with pytest.raises(SystemExit, match=said):
            ranks.tasks.load(tmp_path / 'table.py')
    with pytest.raises(SystemExit, match='there is no file'):
        ranks.tasks.load(tmp_path / 'nothing.py')


def test_a_parameter_without_a_gradient_and_a_score_that_is_no_number_are_named(alone):
    options = change(alone, ('    net.most', "    net.spare = nn.Linear(1, 1)\n    net.most"),
                     ('super().forward(x)', 'self[2](self[1](self[0](x)))'))  # fmt: skip
    (said,) = alone.run(options, status=1)
    assert said.startswith("error: no gradient reaches ['spare.weight', 'spare.bias']: freeze")
    assert len(alone.run(f'{options} --find-unused')) == 2
    (said,) = alone.run(change(alone, ('.abs().sum()', '.abs()')), status=1)
    assert said == 'error: score_of returns a tensor of shape [16], not a number: take its .sum()'


def test_a_last_step_with_one_example_can_be_dropped(alone):
    options = change(alone, ('nn.Tanh()', 'nn.BatchNorm1d(8)'), ('=36', '=33'))
    assert 'Expected more than 1 value per channel' in '\n'.join(alone.run(options, status=1))
    assert len(alone.run(f'{options} --drop-last')) == 2


def test_other_epochs_that_change_the_rate_are_refused(alone):
    options = change(alone, ('def optimizer_of', 'def schedule_of(optimizer, args):\n    return '
                             'torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)\n\n'
                             'def optimizer_of'))  # fmt: skip
    alone.run(f'{options} --checkpoint run')
    (said,) = alone.run(f'{options} --checkpoint run --epochs 4', status=1)
    assert said.startswith('error: at step 6 the learning rate was [0.0]; with these --epochs')


def test_replicas_that_drift_are_found_before_they_are_saved(alone):
    options = change(alone, ('return model(', 'return getattr(model, "module", model)('))
    said = alone.run(f'{options} --every 1 --find-unused --checkpoint run', 2, status=1)
    assert any(line.startswith('error: not the same parameters in all ranks') for line in said)
    assert not list((alone.folder / 'run').glob('step-*'))


def test_an_order_that_each_rank_draws_by_itself_is_named(alone):
    said = alone.run(change(alone, ('(n,), generator=draw)', '(n,))')), 2, status=1)
    assert any(line.startswith('error: not the same order in all ranks') for line in said)


def test_an_exception_prints_its_traceback_and_fails(alone):
    raising = 'def loss_of(output, batch):\n    assert rank != "1", "on purpose"'
    options = change(
        alone, ('def loss_of(output, batch):', raising),
        ('import torch\n', 'import os\nimport torch\nrank = os.environ["RANK"]\n'),
    )  # fmt: skip
    assert 'AssertionError: on purpose' in '\n'.join(alone.run(options, 2, status=1))


def test_blocks_are_units_also_below_the_top(ranks):
    nn = torch.nn
    one, two = (nn.Sequential(nn.ModuleList([nn.LayerNorm(2)]), nn.Linear(2, 2)) for _ in '12')
    body = nn.Sequential(nn.ModuleList([one, two]), nn.Linear(2, 2))
    net = nn.Sequential(body, nn.Linear(2, 2))
    assert [*ranks.tasks.units_of(net)] == [one, two, body[1], net[1]]
