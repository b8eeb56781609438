"""``python -m mgpu_helpers bench``: runs the repository's benchmarks, no part of the package."""

import importlib
import pathlib
import sys

import click

PASSED_ON = {'ignore_unknown_options': True, 'help_option_names': []}


def find_repository() -> pathlib.Path:
    """Find the folder that has the benchmarks: the clone to which this package belongs.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    click.ClickException
        If the package was installed without its repository.

    Examples
    --------
    >>> (find_repository() / 'benchmarks' / '__main__.py').exists()
    True
    """
    root = pathlib.Path(__file__).parents[1]
    if not (root / 'benchmarks' / '__main__.py').exists():
        raise click.ClickException(
            "the benchmarks are part of the course's repository, and this package was installed "
            'without it. In a clone of the repository: make bench'
        )
    return root


@click.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument('arguments', nargs=-1, type=click.UNPROCESSED)
def bench(arguments: tuple[str, ...]) -> None:
    """Measure this machine against what one would use instead, as `make bench` does."""
    sys.path.insert(0, str(find_repository()))
    command = importlib.import_module('benchmarks.__main__').main
    command.main(list(arguments), prog_name='python -m mgpu_helpers bench', standalone_mode=False)
