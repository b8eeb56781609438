"""Chapter 6's script for other tasks: only its first part, the task, is another one."""

import json
import math

import pytest
from checkouts import ROOT

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

pytestmark = pytest.mark.usefixtures('started')

LANGUAGE = (ROOT / 'training' / 'task_language.py').read_text(encoding='utf8')

MIRRORED = """class Mirrored(TensorDataset):
    def __getitem__(self, indices):  # which are mirrored depends on seed, epoch and index
        X, y = super().__getitem__(indices)
        if isinstance(indices, int):  # the first one, looked at for the hash of the data
            return X, y
        draw = [np.random.default_rng([self.seed, self.epoch, int(i)]).random() for i in indices]
        return torch.where(torch.tensor(draw).view(-1, 1, 1, 1) < 0.5, X.flip(3), X), y


def read("""


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


def test_images_drawn_by_workers_are_told_seed_and_epoch(alone):
    script = alone.folder / 'train_ddp.py'
    text = script.read_text(encoding='utf8').replace('def read(', MIRRORED)
    script.write_text(text.replace('return TensorDataset(', 'return Mirrored('), encoding='utf8')
    options = '--limit 60 --batch-size 10 --epochs 2 --dtype float64'
    one = logged(alone, options, None, 'one')
    two = logged(alone, f'{options} --num-workers 2', 2, 'two')
    assert (one - two).abs().max() < 1e-10
