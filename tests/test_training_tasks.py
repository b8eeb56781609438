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


def test_images_drawn_by_workers_are_told_seed_and_epoch(alone):
    script = alone.folder / 'train_ddp.py'
    text = script.read_text(encoding='utf8').replace('def read(', MIRRORED)
    script.write_text(text.replace('return TensorDataset(', 'return Mirrored('), encoding='utf8')
    options = '--limit 60 --batch-size 10 --epochs 2 --dtype float64'
    one = logged(alone, options, None, 'one')
    two = logged(alone, f'{options} --num-workers 2', 2, 'two')
    assert (one - two).abs().max() < 1e-10
