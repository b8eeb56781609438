"""The ``data`` command: fetch and verify the data sets ahead of a class.

The source is the network or a folder, such as a USB stick. Unlike ``data.dataset``, it never falls
back to the digits: it ends with the files in place, or lists what is missing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .download import Unavailable, read
from .published import FILES, folder_of, verified


@click.command('data')
@click.argument('name', type=click.Choice([*FILES, 'all']), default='all')
@click.option(
    '--from',
    'source',
    metavar='DIR',
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help='Copy the files from this folder (a USB stick, a shared folder), without a network.',
)
def bring(name: str, source: Path | None) -> None:
    """Fetch and verify the data sets before a class that has no network.

    Without a name, fetch all of them. The files go where the course looks for them: into
    $MXNET_HOME/datasets, or ~/.mxnet/datasets. Good files that are already there are kept. The exit
    status is 1 if a file is still missing afterwards. Example:

    \b
    python -m mgpu_helpers data --from /media/usb
    """
    from ..display import Table

    rows, incomplete = [], False
    for each in FILES if name == 'all' else [name]:
        before = len(verified(each))
        try:
            read(each, source)
        except (Unavailable, ValueError) as error:
            incomplete = True
            click.echo(f'Error: {each} is not complete. {error}', err=True)
        after = len(verified(each))
        brought = f'{after - before} {"copied" if source else "downloaded"}'
        rows.append([each, f'{after} of {len(FILES[each])}', brought, folder_of(each)])
    click.echo(Table(rows, ['set', 'verified', 'fetched now', 'folder']))
    sys.exit(incomplete)
