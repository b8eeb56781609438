"""A small language model on lines of text. A token is a character; of each, the next is learned."""

from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tasks import above_0, count, some

PAD, LONGEST, SCORE, TEXT = 0, 64, 'right', Path(__file__).parents[1] / 'sentences.txt'
Layer = partial(nn.TransformerEncoderLayer, batch_first=True, norm_first=True)


def options(add):
    add('--data', type=Path, default=TEXT, metavar='FILE', help='every tenth line is a test')
    add('--limit', type=some, metavar='N', help='take the first N lines of each kind')
    add('--width', type=some, default=32, help='numbers that stand for a token (%(default)s)')
    add('--lr', type=above_0, default=0.01, help='learning rate of AdamW (%(default)s)')
    add('--warmup', type=count, default=10, metavar='N', help='reach it in N steps (%(default)s)')
    add('--dropout', type=float, default=0.1, help='share of numbers left out (%(default)s)')
    add('--recompute', action='store_true', help='keep no activations inside blocks: less memory')


def read(args, training):
    lines = [line for line in args.data.read_text('utf8', 'replace').splitlines() if len(line) > 1]
    lines = [line for i, line in enumerate(lines) if (i % 10 > 0) == training][: args.limit]
    return [torch.tensor([1 + ord(c) % 127 for c in line[: LONGEST + 1]]) for line in lines]


def collate(lines):
    tokens = nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=PAD)
    return {'x': tokens[:, :-1], 'y': tokens[:, 1:]}  # each (n, longest)


class GPT(nn.Module):
    def __init__(self, width, dropout, recompute):
        super().__init__()
        self.tokens, self.places = nn.Embedding(128, width), nn.Embedding(LONGEST, width)
        self.blocks = nn.ModuleList(Layer(width, 2, 4 * width, dropout, 'gelu') for _ in range(2))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 128))
        self.again = recompute  # the forward pass again, in the backward pass

    def forward(self, x):
        t = x.shape[1]
        later = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)  # no token looks ahead
        x = self.tokens(x) + self.places(torch.arange(t, device=x.device))
        for block in self.blocks:
            x = checkpoint(block, x, later, use_reentrant=False) if self.again else block(x, later)
        return self.head(x)


def build(args):
    torch.manual_seed(args.seed)
    return GPT(args.width, args.dropout, args.recompute)


def optimizer_of(net, args):
    return torch.optim.AdamW(net.parameters(), args.lr)


def schedule_of(optimizer, args):
    return torch.optim.lr_scheduler.LinearLR(optimizer, 1 / (args.warmup + 1), 1, args.warmup)


def forward(model, batch):
    return model(batch['x'])


def count_of(batch):
    return (batch['y'] != PAD).sum()  # tokens


def loss_of(output, batch):
    return nn.functional.cross_entropy(output.mT, batch['y'], ignore_index=PAD, reduction='sum')


def score_of(output, batch):
    return ((output.argmax(2) == batch['y']) & (batch['y'] != PAD)).sum()
