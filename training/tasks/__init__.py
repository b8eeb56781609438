"""Tasks: what is trained. A task is a file of the names below, which ``--task FILE`` imports.

``examples`` is what ``read`` gives; ``batch`` is what ``collate`` makes of some of them: tensors,
or tuples, lists and dicts of tensors, on their device. ``args`` has all options, args.real (the
type of the parameters), args.device and, after `read`, args.steps (of all epochs together). The
files at --data, where a task has that option, must be the same on all machines and restarts.
"""

import argparse
import importlib.util
import inspect
import math
import os
import sys
from contextlib import suppress
from pathlib import Path

import torch
from torch.optim.lr_scheduler import LambdaLR
from torch.utils._pytree import tree_map_only

NEEDED = {
    'options(add)': 'adds its own options; add is add_argument of an argparse parser',
    'read(args, training)': 'gives the examples to train on, or to test on: len() and [i]; '
    'if they have .seed and .epoch, these are set before each epoch',
    'build(args)': 'gives the network, the same on all ranks: seed it with args.seed',
    'optimizer_of(net, args)': 'gives the optimizer',
    'forward(model, batch)': "gives the network's output",
    'count_of(batch)': 'counts what the loss is a mean of: examples, or tokens',
    'loss_of(output, batch)': 'gives the sum of the losses, not their mean',
    'score_of(output, batch)': 'gives the sum of what SCORE names, such as right answers',
}
OPTIONAL = {
    'SCORE': 'the name of the score',
    'schedule_of(optimizer, args)': 'gives a schedule of the learning rate, for args.steps steps',
    'order_of(examples, draw)': 'gives the indices of an epoch; draw is a torch.Generator',
    'collate(examples)': 'makes a batch of a list of examples',
    'prepare(batch, args, training)': 'gives what the network takes: numbers of type args.real',
    'units_of(net)': 'gives the modules that --shard splits (chapter 7)',
}


def units_of(net):
    """Yield the children of the network and, where one holds a list of blocks, those blocks."""
    lists = torch.nn.ModuleList, torch.nn.ModuleDict
    for child in net.children():
        if isinstance(child, lists):
            yield from child.children()
        elif any(isinstance(module, lists) for module in child.modules()):
            yield from units_of(child)
        else:
            yield child


DEFAULTS = {
    'SCORE': 'score',
    'schedule_of': lambda optimizer, args: LambdaLR(optimizer, lambda step: 1.0),
    'order_of': lambda examples, draw: torch.randperm(len(examples), generator=draw),
    'collate': torch.utils.data.default_collate,
    'prepare': lambda batch, args, training: batch,
    'units_of': units_of,
}


def load(file):
    """Import a task; one sentence names a function that is missing or takes other arguments."""
    if not file.is_file():
        sys.exit(f'error: --task: there is no file {file}')
    spec = importlib.util.spec_from_file_location(f'task_{file.stem}', file)
    task = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(task)
    for call, meaning in (NEEDED | OPTIONAL).items():
        name, *arguments = call.rstrip(')').replace('(', ', ').split(', ')
        if call in OPTIONAL:
            vars(task).setdefault(name, DEFAULTS[name])
        if not hasattr(task, name):
            sys.exit(f'error: {file} has no {call}, which {meaning}')
        try:
            if arguments:
                inspect.signature(getattr(task, name)).bind(*arguments)
        except TypeError as error:
            sys.exit(f'error: {file}: {call} {meaning}, but: {error}')
    return task


def limited(kind, good, words):
    """Make a type for argparse: a number that is ``good``, and ``words`` for the others."""

    def read(text):
        with suppress(ValueError):
            if good(number := kind(text)):
                return number
        raise argparse.ArgumentTypeError(f'must be {words}, not {text}')

    return read


above_0 = limited(float, lambda x: 0 < x < math.inf, 'a number above 0')
some = limited(int, lambda x: x > 0, 'a whole number above 0')
count = limited(int, lambda x: x >= 0, 'a whole number from 0')


def parse(doc, options):
    """Parse the command line: the options of all steps, of the task, and of this step."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument('--task', type=Path, metavar='FILE', help='train this (%(default)s)',
                       default=Path(os.path.relpath(__file__)).with_name('fashion.py'))  # fmt: skip
    task = load(first.parse_known_args()[0].task)
    parser = argparse.ArgumentParser(description=doc, parents=[first], allow_abbrev=False)
    add = parser.add_argument
    add('--epochs', type=some, default=4, help='train so often on all examples (%(default)s)')
    add('--batch-size', type=some, default=256, metavar='N',
        help='examples of a step, of all ranks together (%(default)s)')  # fmt: skip
    add('--seed', type=count, default=0, help='draw weights and order from this (%(default)s)')
    add('--dtype', default='float32', choices=['float32', 'float64', 'bfloat16'],
        help='compute in this; with bfloat16, parameters stay float32 (%(default)s)')  # fmt: skip
    task.options(parser.add_argument_group('options of the task').add_argument)
    options(add)
    args = parser.parse_args()
    args.real = torch.float64 if args.dtype == 'float64' else torch.float32
    return args, task


def move(batch, device):
    """Move a batch to its device, whatever its structure."""
    return tree_map_only(torch.Tensor, lambda x: x.to(device, non_blocking=True), batch)
