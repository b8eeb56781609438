"""``data`` on the command line: brings the data sets ahead of a class, and verifies them.

From the network, or from a folder (a USB stick, a shared one). Unlike ``data.dataset``, it never
settles for the digits: afterwards the files are there, or it says what is missing.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import click

from .download import Unavailable, keep, read, unwritable
from .published import FILES, folder_of, look, stock


def _places(name: str, source: Path) -> list[Path]:
    """List where in a folder the files of a set may lie, the most certain place first."""
    return [source / 'datasets' / name, source / name, source]


def _bring_set(name: str, source: Path | None) -> tuple[str, list[str]]:
    """Bring a set to where it belongs; say how it stands now, and what keeps it incomplete."""
    folder, (content, damaged) = folder_of(name), stock(name)
    missing = [filename for filename in FILES[name] if filename not in content]
    if not missing:
        return 'verified, was there', []
    if trouble := unwritable(folder):
        return 'not brought', [f'{trouble}: set MXNET_HOME to a folder that can']
    if source:
        troubles = [trouble for file in missing if (trouble := _copy(name, file, source))]
    else:
        troubles = _download(name)
    content, bad = stock(name)
    if len(content) == len(FILES[name]):
        replaced = f' ({len(damaged)} for damaged ones)' if damaged else ''
        how = 'copied' if source else 'downloaded'
        return f'verified, {len(missing)} {how}{replaced}', []
    missing = [filename for filename in FILES[name] if filename not in content]
    # What lies there damaged and could not be replaced is named, too.
    troubles += [trouble for trouble in bad.values() if trouble not in troubles]
    return f'incomplete, without {", ".join(missing)}', troubles


def _copy(name: str, filename: str, source: Path) -> str:
    """Copy a good file of a set from a folder; say what is the matter if there is none."""
    troubles = []
    for folder in _places(name, source):
        path = folder / filename
        content, trouble = look(path, FILES[name][filename])
        if content is not None:
            return keep(folder_of(name) / filename, content)
        # The sets call their files the same: a good one of another set is not damaged.
        others = (FILES[other][filename] for other in FILES if other != name)
        if trouble and not any(look(path, other)[0] for other in others):
            troubles.append(trouble)
        if path.with_suffix('').is_file():
            plain = path.with_suffix('')
            troubles.append(f'{plain} is not compressed: only {filename} can be verified')
    return '; '.join(troubles) or f'{filename} of {name} is not in {source}'


def _download(name: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        try:
            read(name)
        except Unavailable as trouble:
            return list(trouble.reasons)
    # That a bad file was replaced is no trouble; if the new ones were not kept, they are missing.
    return [str(warning.message) for warning in caught]


def _way_out(name: str, source: Path | None) -> str:
    """Say what can be done where a set could not be brought."""
    files = f'the published files of {name} ({", ".join(FILES[name])})'
    if source:
        ways = f'put {files} into {source} or {source / name}; or call the same without --from'
    else:
        places = ', '.join(f'{folder}/' for folder in _places(name, Path('DIR')))
        ways = f'bring {files} in a folder and add --from DIR (they may lie in {places}); or set '
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
