"""The ratios as a picture: a dot for the median, a line for the range, on a log scale around 1."""

from itertools import groupby

from mgpu_helpers.display import BLUE, EDGE, GREY, INK, LOOK, RED, SOFT

from .figures import figures
from .result import QUICK
from .tables import NOT_PUBLISHED, short

LINE = 0.27  # inches of a row


def color_of(figure):
    """Blue at or above the target, red below it; without a target, blue from 1 on, else grey."""
    if figure.aim is not None:
        return BLUE if figure.median >= figure.aim else RED
    return BLUE if figure.median >= 1 else GREY


def draw(result, path):
    """Draw the ratios of a result into a PNG file."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    ratios = figures(result.measured)
    if not ratios:
        raise ValueError('there is no ratio to draw: no row has both of its cases')
    rows = []  # from top to bottom: None (a gap), a heading, or a figure
    for group, members in groupby(ratios, key=lambda figure: figure.group):
        rows += [None] * bool(rows) + [group, *members]
    fig = Figure(figsize=(11, LINE * len(rows) + 1.5), **LOOK)
    ax = fig.add_subplot()
    ax.set_xscale('log')
    low = min(0.5, *(min(f.values) for f in ratios)) / 1.15
    high = max(2.2, *(max(f.values) for f in ratios)) * 1.15
    ax.set_xlim(low, high)
    ax.set_ylim(len(rows) - 0.4, -0.8)
    labels = []
    for y, row in enumerate(rows):
        if row is None or isinstance(row, str):
            labels.append('')
            if row:
                ax.text(0, y, row, transform=ax.get_yaxis_transform(), weight='bold', color=INK,
                        ha='right', va='center', fontsize=10.5)  # fmt: skip
            continue
        labels.append(f'{short(row, row.what)}  ÷  {short(row, row.over)}')
        color = color_of(row)
        ax.axhline(y, color=EDGE, lw=0.7, zorder=0)
        ax.plot([min(row.values), max(row.values)], [y, y], color=color, lw=3, alpha=0.45,
                solid_capstyle='round')  # fmt: skip
        ax.plot(row.median, y, 'o', color=color, ms=6)
        if row.aim is not None:
            ax.plot(row.aim, y, '|', color=INK, ms=9, mew=1.4)
        for x, text, shade in ((1.02, f'{row.median:.2f}', INK), (1.09, row.wanted, SOFT)):
            ax.text(x, y, text, transform=ax.get_yaxis_transform(), va='center', fontsize=8.5,
                    color=shade)  # fmt: skip
    ax.axvline(1, color=INK, lw=1.1, zorder=1)
    ax.set_yticks(range(len(rows)), labels, fontsize=8.5, color=INK)
    ticks = [t for t in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low < t < high]
    ax.set_xticks(ticks)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f'{x:g}'))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(length=0, colors=INK)
    ax.spines[['top', 'right', 'left', 'bottom']].set_visible(False)
    legend = 'right of 1 the first is better   ●  median   ━  range of the repeats   |  wanted'
    ax.set_xlabel(legend, color=SOFT, fontsize=9)
    title = f'{result.machine["cores"]} cores, {result.machine["cpu"]}, {result.date[:10]}'
    if result.kind == QUICK:
        title += f'\n{NOT_PUBLISHED}'
    ax.set_title(title, color=INK, fontsize=11, loc='left', pad=12)
    fig.savefig(path, dpi=110)
