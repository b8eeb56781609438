"""A small language model: the task to put in the place of train_ddp.py's first part."""

from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

PAD, LONGEST, SCORE = 0, 64, 'right'
PARTS = 'train', 'test'
MAY_BE_0 = 'seed', 'decay', 'warmup', 'num_workers', 'dropout'


def options(add):
    add('--data', type=Path, required=True, metavar='DIR', help='its train.txt and test.txt')
    add('--width', type=int, default=32, help='numbers that stand for a token (32)')
    add('--lr', type=float, default=0.01, help='learning rate (0.01)')
    add('--sgd', action='store_true', help='instead of AdamW')
    add('--decay', type=float, default=0.1, help='of weights, not of biases and norms (0.1)')
    add('--warmup', type=int, default=10, metavar='N', help='steps before the full rate (10)')
    add('--dropout', type=float, default=0.1, help='(0.1)')


class Lines(torch.utils.data.Dataset):
    """Lines of text. A token is a character, 1 to 127; of each, the next one is learned."""

    def __init__(self, lines):
        self.lines = [torch.tensor([1 + ord(c) % 127 for c in line]) for line in lines]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        return self.lines[i][:-1], self.lines[i][1:]


def read(folder, part, limit=None):
    lines = (folder / f'{part}.txt').read_text(encoding='utf8').splitlines()
    return Lines([line[: LONGEST + 1] for line in lines if len(line) > 1][:limit])


def pad(pairs):
    """Make of sequences of uneven length X and y (n, longest)."""
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
    return GPT(args.width, args.dropout)


def optimizer_of(net, args):
    weights, rest = ([p for p in net.parameters() if (p.dim() > 1) == w] for w in (True, False))
    groups = {'params': weights, 'weight_decay': args.decay}, {'params': rest, 'weight_decay': 0.0}
    return (torch.optim.SGD if args.sgd else torch.optim.AdamW)(groups, args.lr)


def schedule_of(optimizer, args):
    steps = args.warmup + 1
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1, (i + 1) / steps))


def prepare(X, y, args, training):
    return X.to(args.device, non_blocking=True), y.to(args.device, non_blocking=True)


def count_of(y):
    return (y != PAD).sum()  # tokens


def loss_of(output, y):
    output, y = output.flatten(0, 1), y.flatten()
    return nn.functional.cross_entropy(output, y, ignore_index=PAD, reduction='sum')


def score_of(output, y):
    return ((output.argmax(2) == y) & (y != PAD)).sum()
