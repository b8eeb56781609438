"""What a training costs: operations, hours of GPUs, money, and what failures add."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import arguments
from ..display import CYCLE, Table, panels, quantity
from .links import PUBLISHED, Library

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Hours between two failures of one GPU: 419 in 54 days on 16,384 H100 (Llama 3's paper, 2024).
BETWEEN_FAILURES = 54 * 24 * 16_384 / 419


@dataclass(frozen=True)
class Chip:
    """A kind of GPU, and the operations a second on its data sheet: in bfloat16, dense."""

    name: str
    flops: float


@dataclass(frozen=True)
class Training:
    """A training whose GPU hours were published."""

    name: str
    parameters: float
    tokens: float
    chip: str
    gpu_hours: float


CHIPS = Library('chip', (Chip(name, flops) for name, flops in PUBLISHED['chips'].items()))
TRAININGS = Library('training', (Training(name, **x) for name, x in PUBLISHED['trainings'].items()))


def gpu_hours(parameters: float, tokens: float, peak: float, mfu: float) -> float:
    """Work out the hours of GPUs that a transformer's training takes.

    Each of ``tokens`` takes 6 operations a parameter: 2 forward, 4 backward; attention's own, a few
    percent, are left out. ``peak`` are the operations a second of the data sheet, of which ``mfu``
    is the share that goes into these (Chowdhery and others 2022).
    """
    arguments.positive_number('parameters', parameters)
    arguments.positive_number('tokens', tokens)
    arguments.positive_number('peak', peak)
    arguments.share('mfu', mfu)
    return 6 * parameters * tokens / (mfu * peak) / 3600


def checkpoint_interval(save: float, between_failures: float) -> float:
    """Find how often to save so that the least is lost, in the unit of both times (Young 1974)."""
    arguments.positive_number('save', save)
    arguments.positive_number('between_failures', between_failures)
    return math.sqrt(2 * save * between_failures)


def time_lost(save: float, restart: float, between_failures: float, every: float) -> float:
    """Give the share of the time that goes into saving, into work done twice, and into restarts.

    A failure comes, on average, in the middle between two checkpoints. All times in one unit.
    """
    arguments.positive_number('save', save)
    arguments.not_negative('restart', restart)
    arguments.positive_number('between_failures', between_failures)
    arguments.positive_number('every', every)
    return save / every + (every / 2 + restart) / between_failures


def tokens_needed(tokens: float, batch: float, critical: float) -> float:
    """Tell how many tokens reach the same loss with a ``batch`` of so many tokens.

    With a very small batch it would take ``tokens``; at the ``critical`` batch it takes twice as
    many, in twice as many steps as a batch without bounds needs (McCandlish and others 2018).
    """
    arguments.positive_number('tokens', tokens)
    arguments.positive_number('batch', batch)
    arguments.positive_number('critical', critical)
    return tokens * (1 + batch / critical)


def plot_bill(
    parameters: float = 8e9,
    tokens: float = 1e12,
    gpus: int = 1024,
    mfu: float = 0.4,
    critical: float = 20e6,
    price: float = 1.0,
) -> Figure:
    """Draw what a training on H100 costs, with a text of 8,192 tokens on each, and where it goes.

    ``price`` is that of a GPU hour, in your currency; saving takes a minute, a restart ten.
    """
    arguments.positive_int('gpus', gpus)
    arguments.positive_number('price', price)
    needed = tokens_needed(tokens, 8192 * gpus, critical)
    least, all_tokens = (
        gpu_hours(parameters, t, CHIPS['H100'].flops, mfu) for t in (tokens, needed)
    )
    between = BETWEEN_FAILURES / gpus
    lost = time_lost(1 / 60, 1 / 6, between, checkpoint_interval(1 / 60, between))
    total = all_tokens * (1 + lost)
    parts = {'training': least, 'larger batch': all_tokens - least, 'failures': total - all_tokens}
    figure, axes = panels(height=1.9)
    start = 0.0
    for (name, hours), color in zip(parts.items(), CYCLE):
        label = f'{name}: {quantity(hours, "h")}'
        axes.barh([0], [hours], left=[start], color=color, label=label)
        start += hours
    axes.set_title(
        f'{quantity(total, "")} GPU hours, {total / gpus / 24:,.3g} days, '
        f'{quantity(total * price, "")} at {price:g} an hour',
        size='medium',
    )
    axes.set(yticks=[], xlim=(0, 1.02 * total), xlabel='hours of GPUs')
    axes.xaxis.set_major_formatter(lambda hours, _: quantity(hours, ''))
    figure.legend(loc='outside lower center', ncols=3, fontsize='small')
    return figure


def trainings_table(mfu: float) -> Table:
    """Lay the published trainings out: hours predicted with one ``mfu``, and the error."""
    rows = []
    for run in TRAININGS.values():
        found = gpu_hours(run.parameters, run.tokens, CHIPS[run.chip].flops, mfu)
        rows.append(
            [
                run.name,
                f'{run.tokens / 1e12:g} · 10¹²',
                run.chip,
                f'{run.gpu_hours:,}',
                f'{found:,.0f}',
                f'{found / run.gpu_hours - 1:+.0%}',
                f'{mfu * found / run.gpu_hours:.0%}',
            ]
        )
    headers = 'network,tokens,GPU,published hours,predicted,error,MFU that fits'
    return Table(rows, headers.split(','))
