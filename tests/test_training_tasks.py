"""Chapter 6's script for other tasks: only its first part, the task, is another one."""

import json
import math

import pytest
from checkouts import ROOT

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')

LANGUAGE = '''
from torch.nn.utils.rnn import pad_sequence

PAD, LONGEST, SCORE = 0, 48, 'next characters'
MAY_BE_0 = 'seed', 'decay', 'warmup', 'num_workers', 'dropout'


def options(add):
    add('--data', type=Path, required=True)
    add('--lr', type=float, default=0.01)
    add('--decay', type=float, default=0.1)
    add('--warmup', type=int, default=2)
    add('--dropout', type=float, default=0.1)


class Lines(torch.utils.data.Dataset):
    """Lines of characters, of uneven length; the next character is what is learned."""

    def __init__(self, text):
        self.lines = [torch.tensor([1 + ord(c) % 127 for c in line]) for line in text]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        return self.lines[i][:-1], self.lines[i][1:]


def read(folder, part, limit=None):
    lines = [line[:LONGEST] for line in open(folder / f'{part}.txt') if len(line) > 2]
    return Lines(lines[:limit])


def pad(pairs):
    return [pad_sequence(part, batch_first=True, padding_value=PAD) for part in zip(*pairs)]


def loader(examples, batches, **more):
    return DataLoader(examples, batch_sampler=batches, collate_fn=pad, **more)


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        wide = nn.Linear(width, 4 * width)
        self.mlp = nn.Sequential(wide, nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        qkv = self.qkv(self.norms[0](x)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.transpose(1, 3).unbind(2)  # (n, heads, t, d)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.out(seen.transpose(1, 2).flatten(2)))
        return x + self.dropout(self.mlp(self.norms[1](x)))


class GPT(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.tokens, self.places = nn.Embedding(128, width), nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList([Block(width, 2, dropout) for _ in range(2)])
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 128))

    def forward(self, x):
        x = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(args):
    torch.manual_seed(args.seed)
    return GPT(16, args.dropout)


def optimizer_of(net, args):
    weights, rest = ([p for p in net.parameters() if (p.dim() > 1) == w] for w in (True, False))
    groups = {'params': weights, 'weight_decay': args.decay}, {'params': rest, 'weight_decay': 0.0}
    return torch.optim.AdamW(groups, args.lr)


def schedule_of(optimizer, args):
    steps = args.warmup + 1
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1, (i + 1) / steps))


def prepare(X, y, args, training):
    return X.to(args.device), y.to(args.device)


def count_of(y):
    return (y != PAD).sum()


def loss_of(output, y):
    output, y = output.flatten(0, 1), y.flatten()
    return nn.functional.cross_entropy(output, y, ignore_index=PAD, reduction='sum')


def score_of(output, y):
    return ((output.argmax(2) == y) & (y != PAD)).sum()


'''

PICTURES = '''
from PIL import Image

SCORE, MAY_BE_0 = 'test acc', ('seed', 'num_workers')


def options(add):
    add('--data', type=Path, required=True)
    add('--lr', type=float, default=0.1)


class Pictures(torch.utils.data.Dataset):
    """Files in a folder for each class. Mirrored or not: that depends on seed, epoch and index."""

    def __init__(self, files):
        self.files, self.seed, self.epoch = files, 0, 0

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
    script.write_text(text[:begin] + task.lstrip() + text[end:], encoding='utf8')


@pytest.fixture
def language(alone):
    adapt(alone, LANGUAGE)
    words = (ROOT / '.github' / 'CONTRIBUTING.md').read_text(encoding='utf8').splitlines()
    (alone.folder / 'words').mkdir()
    for part, lines in {'train': words[::2], 't10k': words[1::2]}.items():
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
WORDS = '--data words --limit 50 --batch-size 16 --epochs 1 --dtype float64 --clip 0.1 --dropout 0'


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


def test_tokens_count_whatever_the_ranks_and_micro_batches(language):
    compare(language, [(3, 5, ''), (2, 2, '--shard')])


@pytest.mark.slow
def test_tokens_count_for_all_numbers_of_ranks_and_micro_batches(language):
    cases = [(ranks, pieces) for ranks in (1, 2, 3) for pieces in (1, 2, 5)]
    compare(language, [(*case, more) for more in ('', '--shard') for case in cases])


def test_a_sharded_run_goes_on_as_another_number_of_ranks_and_whole(language):
    """Moments of AdamW, its two groups and the schedule are in the checkpoint."""
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
        for name in a.keys() - {'time', 'rate'}:
            assert a[name] == pytest.approx(b[name], abs=1e-10)


def test_pictures_read_by_workers_are_told_seed_and_epoch(pictures):
    options = '--data pictures --batch-size 10 --epochs 2 --dtype float64'
    one = logged(pictures, options, None, 'one')
    two = logged(pictures, f'{options} --num-workers 2', 2, 'two')
    assert (one - two).abs().max() < 1e-10
