"""Run the benchmarks (``make bench``) and print one table; ``--book`` puts it into the book."""

import pathlib
import sys
import time

import click

from mgpu_helpers.data import dataset
from mgpu_helpers.processes import python_with

from .cases import CASES, names_with, usual
from .measuring import clean_environment, measure
from .result import FOLDER, FULL, PART, QUICK, Result, machine, newest, write_page

# Rounds, and examples per run: 60 batches, or 20 with --quick; 1.7 s and 0.6 s on two stand-ins.
# Loading and warming up take longer than that.
SIZES = {FULL: (3, 15_360), QUICK: (2, 5_120)}
BUSY = 0.5  # load per core above which other work affects the measurements


def choose(words, quick):
    """Return the cases to run, and the missing modules that caused other cases to be left out."""
    if words:
        chosen = names_with(words)
        if not chosen:
            raise click.BadParameter(
                f'no run has {" or ".join(map(repr, words))} in its name; --list shows all names',
                param_hint='--only',
            )
    else:
        chosen = usual(quick)
    wanted = {module for name in chosen for module in CASES[name].needs}
    absent = sorted(module for module in wanted if not python_with(module))
    runnable = [name for name in chosen if not set(CASES[name].needs) & set(absent)]
    if absent:
        click.echo(f'left out: runs that need {" and ".join(absent)}, not installed here', err=True)
    if not runnable:
        raise click.ClickException('none of the chosen cases can be measured')
    return runnable, absent


def publish():
    """Write the newest result into the book."""
    result = newest()
    if result is None:
        raise click.ClickException(
            'no complete result of a full run in benchmarks/results; run make bench to create one'
        )
    write_page(result)
    click.echo(f'book/measured.md has the table of {result.name}')


@click.command(context_settings={'help_option_names': ['-h', '--help']})
@click.option('--quick', is_flag=True, help='Fewer and shorter runs; not to be published.')
@click.option('--only', 'words', multiple=True, metavar='WORD',
              help='Only runs with this in their name; may be given several times.')  # fmt: skip
@click.option('--rounds', type=click.IntRange(1), help='How many times to repeat all runs.')
@click.option('--examples', type=click.IntRange(256), help='Maximum per run.')
@click.option('--out', type=click.Path(file_okay=False, path_type=pathlib.Path), default=FOLDER,
              show_default='benchmarks/results', help='Folder for the results.')  # fmt: skip
@click.option('--no-store', is_flag=True, help='Only print.')
@click.option(
    '--list', 'listed', is_flag=True, help='Measure nothing; print the names of all runs.'
)
@click.option('--book', is_flag=True, help='Measure nothing; put the newest result into the book.')
def main(quick, words, rounds, examples, out, no_store, listed, book):
    """Compare the speed of the course's code with that of its alternatives."""
    if listed:
        return click.echo('\n'.join(CASES))
    if book:
        return publish()
    chosen, absent = choose(words, quick)
    least = SIZES[QUICK if quick else FULL]
    rounds, examples = rounds or least[0], examples or least[1]
    whole = not words and rounds >= least[0] and examples >= least[1]
    kind = QUICK if quick else FULL if whole else PART
    here, start = machine(), time.monotonic()
    if here['load_before'] > BUSY * here['cores']:
        click.secho(
            f'The machine is busy (load {here["load_before"]} on {here["cores"]} cores), which '
            'will affect the figures.', fg='yellow', err=True,
        )  # fmt: skip
    data = dataset('fashion-mnist') if any(CASES[name].data for name in chosen) else None
    if data and data.source != 'files':
        raise click.ClickException(
            'these benchmarks need Fashion-MNIST, but only the substitute digits are here. '
            'Get it with: python -m mgpu_helpers data'
        )
    try:
        with clean_environment(data) as environment:
            measured, failed = measure(
                chosen, rounds, examples, environment,
                lambda text: click.secho(text, fg='red', err=True),
            )  # fmt: skip
    except KeyboardInterrupt:
        click.echo('\nStopped: every process has ended, and nothing was stored.', err=True)
        sys.exit(130)
    seconds = time.monotonic() - start
    result = Result(kind, rounds, examples, measured, failed, absent, seconds, machine=here)
    click.echo('\n\n'.join([result.about(), result.table(), result.runs()]))
    if not no_store:
        click.echo(f'\nstored: {click.format_filename(result.save(out))}')
        if result.publishable and out.resolve() == FOLDER.resolve():
            publish()
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main(prog_name='python -m benchmarks')
