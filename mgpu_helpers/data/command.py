"""``data`` on the command line: brings the data sets ahead of a class, and verifies them.

From the network, or from a folder (a USB stick, a shared one). Unlike ``data.dataset``, it never
settles for the digits: afterwards the files are there, or it says what is missing.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import click

from .download import Unavailable, places, read, unwritable
from .published import FILES, folder_of, stock


def _bring_set(name: str, source: Path | None) -> tuple[str, list[str]]:
    """Bring a set to where it belongs; say how it stands now, and what keeps it incomplete."""
    before, damaged = stock(name)
    if len(before) == len(FILES[name]):
        return 'verified, was there', []
    if trouble := unwritable(folder_of(name)):
        return 'not brought', [f'{trouble}: set MXNET_HOME to a folder that can']
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            read(name, source)
            troubles = [str(warning.message) for warning in caught]
        except Unavailable as unavailable:
            troubles = unavailable.reasons
    after, _ = stock(name)
    missing = [filename for filename in FILES[name] if filename not in after]
    if missing:
        return f'incomplete, without {", ".join(missing)}', troubles
    how = f'{len(after) - len(before)} {"copied" if source else "downloaded"}'
    return f'verified, {how}' + (f' ({len(damaged)} for damaged ones)' if damaged else ''), []


def _way_out(name: str, source: Path | None) -> str:
    """Say what can be done where a set could not be brought."""
    files = f'the published files of {name} ({", ".join(FILES[name])})'
    if source:
        ways = f'put {files} into {source} or {source / name}; or call the same without --from'
    else:
        there = ', '.join(f'{folder}/' for folder in places(name, Path('DIR')))
        ways = f'bring {files} in a folder and add --from DIR (they may lie in {there}); or set '
        ways += 'MGPU_DATA_MIRRORS to the address of a server that has them'
    return f'What to do: connect this machine; or {ways}.'


@click.command('data')
@click.argument('name', type=click.Choice([*FILES, 'all']), default='all')
@click.option(
    '--from',
    'source',
    metavar='DIR',
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help='Copy them from this folder (a USB stick, a shared folder) and use no network.',
)
def bring(name: str, source: Path | None) -> None:
    """Bring the data sets ahead of a class without a network, and verify them.

    Without a name, all of them. The files go where the course looks for them: into
    $MXNET_HOME/datasets, or ~/.mxnet/datasets. Good ones that are there stay. The exit status is 1
    if something is missing afterwards. Example:

    \b
    python -m mgpu_helpers data --from /media/usb
    """
    from ..display import Table

    rows, incomplete = [], False
    for each in FILES if name == 'all' else [name]:
        try:
            state, troubles = _bring_set(each, source)
        except ValueError as error:
            raise click.ClickException(str(error)) from error
        rows.append([each, f'{len(stock(each)[0])} of {len(FILES[each])}', folder_of(each), state])
        if not state.startswith('verified'):
            incomplete = True
            lines = [f'  - {trouble}' for trouble in troubles]
            said = [f'Error: {each} is not complete.', *lines, _way_out(each, source)]
            click.echo('\n'.join(said), err=True)
    click.echo(Table(rows, ['set', 'files', 'folder', 'state']))
    sys.exit(1 if incomplete else 0)
