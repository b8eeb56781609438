"""Wrong answers to exercises 6.6 and 6.7, on checkpoints, each with a part of its hint."""

import os
import shutil

import torch


def in_place(file, write, flush):
    write(file)
    flush(file)


def moved_away(file, write, flush):
    write(f'{file}.new')
    flush(f'{file}.new')
    os.remove(file)
    os.rename(f'{file}.new', file)


def renamed_first(file, write, flush):
    write(f'{file}.new')
    os.replace(f'{file}.new', file)
    flush(file)


def kept(without='', wrapped=False, objects=False):
    def my_state(ddp, optimizer, schedule, done):
        net = ddp if wrapped else ddp.module
        state = {'net': net, 'optimizer': optimizer, 'schedule': schedule}
        state = {name: part if objects else part.state_dict() for name, part in state.items()}
        return state | {'done': done, 'random': torch.get_rng_state()}

    def my_resume(state, net, optimizer, schedule):
        parts = {'net': net, 'optimizer': optimizer, 'schedule': schedule}
        for name in parts.keys() - {without}:
            strict = {'strict': False} if name == 'net' and wrapped == 'not strict' else {}
            parts[name].load_state_dict(state[name], **strict)
        if without != 'random':
            torch.set_rng_state(state['random'])
        return 0 if without == 'done' else state['done']

    return my_state, my_resume


def with_a_copy(file, write, flush):
    shutil.copy(file, f'{file}.old')
    write(f'{file}.new')
    flush(f'{file}.new')
    os.replace(f'{file}.new', file)


def in_one_line(file, write, flush):
    write(f'{file}.new'), flush(f'{file}.new')
    os.remove(file), os.rename(f'{file}.new', file)


WRONG = [
    ('6.6', 'the old file overwritten', in_place, 'write under another name'),
    ('6.6', 'the old file removed first', moved_away, 'change this file only'),
    ('6.6', 'the old file kept as a copy', with_a_copy, 'extra files are left behind'),
    ('6.6', 'removed in the same line', in_one_line, 'change this file only'),
    ('6.6', 'renamed, then flushed', renamed_first, 'before it is flushed'),
    ('6.7', 'whole objects', kept(objects=True), 'no objects'),
    ('6.7', 'no optimizer', kept('optimizer'), 'without its momentum'),
    ('6.7', 'no random numbers', kept('random'), 'torch.get_rng_state()'),
]
