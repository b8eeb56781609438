"""Chapter 6's script for other tasks: only its first part, the task, is another one."""

import json
import math

import pytest
from checkouts import ROOT

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')

LANGUAGE = (ROOT / 'training' / 'task_language.py').read_text(encoding='utf8')

PICTURES = '''
from PIL import Image

SCORE, MAY_BE_0, PARTS = 'test acc', ('seed', 'num_workers'), ('train', 'test')


def options(add):
    add('--data', type=Path, required=True)
    add('--lr', type=float, default=0.1)


class Pictures(torch.utils.data.Dataset):
    """Files in a folder for each class. Mirrored or not: that depends on seed, epoch and index."""

    def __init__(self, files):
        self.files = files  # seed and epoch are told

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        pixels = torch.tensor(np.array(Image.open(self.files[i])))[None]
        draw = np.random.default_rng([self.seed, self.epoch, i]).random()
        return pixels.flip(2) if draw < 0.5 else pixels, int(self.files[i].parent.name)


def read(folder, part, limit=None):
    files = sorted(folder.glob('*/*.png'))
    return Pictures([f for i, f in enumerate(files) if (i % 5 > 0) == (part == 'train')][:limit])


def loader(examples, batches, **more):
    return DataLoader(examples, batch_sampler=batches, **more)


def build(args):
    torch.manual_seed(args.seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(36, 3),
    )


def optimizer_of(net, args):
    return torch.optim.SGD(net.parameters(), args.lr)


def schedule_of(optimizer, args):
    return torch.optim.lr_scheduler.ConstantLR(optimizer, 1)


def prepare(X, y, args, training):
    return X.to(args.device).to(args.real) / 255, y.to(args.device)


def count_of(y):
    return len(y)


def loss_of(output, y):
    return nn.functional.cross_entropy(output, y, reduction='sum')


def score_of(output, y):
    return (output.argmax(1) == y).sum()


'''


def adapt(alone, task):
    """Put another task into the script; all other lines stay."""
    script = alone.folder / 'train_ddp.py'
    text = script.read_text(encoding='utf8')
    begin, end = text.index('# The task'), text.index('# How it is trained')
    script.write_text(f'{text[:begin]}{task.strip()}\n\n\n{text[end:]}', encoding='utf8')


@pytest.fixture
def language(alone):
    adapt(alone, LANGUAGE)
    words = (ROOT / 'LICENSE').read_text(encoding='utf8').splitlines()  # a text that stays
    words = [line.strip() for line in words if len(line.strip()) > 2]
    (alone.folder / 'words').mkdir()
    for part, lines in {'train': words[::2], 'test': words[1::2]}.items():
        (alone.folder / 'words' / f'{part}.txt').write_text('\n'.join(lines), encoding='utf8')
    return alone


@pytest.fixture
def pictures(alone):
    from PIL import Image

    adapt(alone, PICTURES)
    torch.manual_seed(0)
    for i in range(60):
        file = alone.folder / 'pictures' / f'{i % 3}' / f'{i}.png'
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = 60 * (i % 3) + torch.randint(100, (8, 8), dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(file)
    return alone


def logged(alone, options, ranks, name):
    """Run it; give from its log all losses, norms and scores, and of each test its perplexity."""
    alone.run(f'{options} --report 1 --log-file {name}', ranks)
    lines = [json.loads(line) for line in (alone.folder / name).read_text().splitlines()]
    numbers = [line[k] for line in lines for k in ('loss', 'norm', 'lr') if k in line]
    for line in lines:
        if 'epoch' in line and 'step' not in line:
            numbers += [line['train_loss'], line['score'], math.exp(line['test_loss'])]
    return torch.tensor(numbers, dtype=torch.float64)


# 50 lines in steps of 16: the last step has two, for three ranks and five micro-batches each.
WORDS = '--data words --limit 50 --batch-size 16 --epochs 1 --dtype float64 --clip 0.1 '
WORDS += '--warmup 2 --dropout 0'


def compare(language, cases):
    one = logged(language, WORDS, None, 'one')
    assert len(one) == 4 * 3 + 3 and one[1] > 0.1  # clipped, but its norm is from before
    far = {}
    for ranks, pieces, more in cases:
        name = f'{ranks}-{pieces}{more}'.replace(' ', '')
        found = logged(language, f'{WORDS} --accumulate {pieces} {more}', ranks, name)
        far[name] = (found - one).abs().max().item()
    print('largest differences of loss, norm and perplexity:', far)
    assert max(far.values()) < 1e-10


@pytest.mark.slow
def test_tokens_count_whatever_the_ranks_and_micro_batches(language):
    compare(language, [(3, 5, ''), (1, 2, ''), (2, 2, '--shard'), (3, 1, '--shard')])


@pytest.mark.slow  # chapter 6 does it with a kill
def test_a_sharded_run_goes_on_as_another_number_of_ranks_and_whole(language):
    """Moments of AdamW, its two groups and the schedule are in the checkpoint; weights are tied."""
    script = language.folder / 'train_ddp.py'
    text, head = script.read_text(encoding='utf8'), 'nn.Linear(width, 128))\n'
    assert text.count(head) == 1
    tied = f'{head}        self.head[1].weight = self.tokens.weight\n'
    script.write_text(text.replace(head, tied), encoding='utf8')
    logged(language, f'{WORDS} --epochs 2', 2, 'straight')
    logged(language, f'{WORDS} --shard --checkpoint run', 3, 'continued')
    logged(language, f'{WORDS} --epochs 2 --checkpoint run', 2, 'continued')  # adds to the file
    straight, continued = (
        [json.loads(line) for line in (language.folder / name).read_text().splitlines()]
        for name in ('straight', 'continued')
    )
    del continued[5]  # the first epoch's line again
    for a, b in zip(straight, continued, strict=True):
        assert a.keys() == b.keys()
        for name in a.keys() - {'time', 'rate', 'memory'}:
            assert a[name] == pytest.approx(b[name], abs=1e-10)


def test_pictures_read_by_workers_are_told_seed_and_epoch(pictures):
    options = '--data pictures --batch-size 10 --epochs 2 --dtype float64'
    one = logged(pictures, options, None, 'one')
    two = logged(pictures, f'{options} --num-workers 2', 2, 'two')
    assert (one - two).abs().max() < 1e-10
