"""Execute the course's notebooks without a browser.

``make run`` calls this: every chapter whose framework is installed (or ``--chapter 1``, whatever is
installed) is executed from top to bottom in ``notebooks/``, with a line per cell, and left in
``build/`` as a notebook and as one HTML file that holds its figures. A cell that fails stops its
chapter and the run; what was done until then is left as ``build/<chapter>.failed.ipynb`` and
``.html``. With ``--store`` the executed notebook also replaces the one in ``notebooks/``, in a form
that differs from run to run only where results do.
"""

import argparse
import asyncio
import importlib.util
import os
import re
import signal
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from pages import WIDGET, page_of, prefer_pictures
from tqdm import tqdm
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
# What a stored notebook says about its kernel: nothing that another machine would say otherwise.
KERNELSPEC = {'display_name': 'Python 3', 'language': 'python', 'name': 'python3'}
LANGUAGE = {
    'file_extension': '.py',
    'mimetype': 'text/x-python',
    'name': 'python',
    'pygments_lexer': 'ipython3',
}
# An import of what not every environment has.
FRAMEWORK = re.compile(r'^\s*(?:import|from) (mxnet|torch)\b', re.MULTILINE)


class ChapterError(Exception):
    """A chapter cannot be run or stored; the message is the sentence for the reader."""


class Stopped(Exception):
    """Somebody pressed Ctrl-C, or asked this process to end."""


def find_chapters(folder, wanted=None):
    """Find the chapters' notebooks.

    Parameters
    ----------
    folder : pathlib.Path
        Where the notebooks are; a chapter's file starts with its number and a hyphen.
    wanted : str, optional
        Chapter numbers, separated by commas or spaces, such as ``'1'`` or ``'1,3'``. By default
        every chapter there is.

    Returns
    -------
    list of pathlib.Path
        In the order of the file names.

    Raises
    ------
    ChapterError
        There is no such chapter, or no chapter at all.

    Examples
    --------
    >>> find_chapters(Path('no such folder'))
    Traceback (most recent call last):
        ...
    run_notebooks.ChapterError: there are no chapters in 'no such folder'
    """
    chapters = sorted(folder.glob('[0-9]*-*.ipynb'))
    if not chapters:
        raise ChapterError(f"there are no chapters in '{folder}'")
    if wanted is None or not wanted.strip():
        return chapters
    number = {path: path.name.split('-')[0].lstrip('0') for path in chapters}
    asked = [word.lstrip('0') for word in wanted.replace(',', ' ').split()]
    for word, short in zip(wanted.replace(',', ' ').split(), asked, strict=True):
        if short not in number.values():
            there = '\n'.join(f'  {number[path]}  {path.name}' for path in chapters)
            raise ChapterError(f"there is no chapter '{word}'; these there are:\n{there}")
    return [path for path in chapters if number[path] in asked]


def framework_missing(path):
    """Say which framework a chapter imports and this environment has not.

    Parameters
    ----------
    path : pathlib.Path
        The chapter's notebook.

    Returns
    -------
    str or None
        ``'mxnet'`` or ``'torch'``; None where there is nothing in the way.

    Examples
    --------
    >>> framework_missing(ROOT / 'notebooks' / '01-multiple-gpus-scratch.ipynb')
    """
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == 'code':
            for name in FRAMEWORK.findall(cell.source):
                if importlib.util.find_spec(name) is None:
                    return name
    return None


def label(cell):
    """Return a cell's first line that says something, shortened for a line of progress."""
    lines = [line.strip() for line in cell.source.splitlines()]
    lines = [line for line in lines if line and line != '#@save' and not line.startswith('%')]
    text = lines[0] if lines else '(empty)'
    return text if len(text) <= 60 else text[:59] + '…'


class Progress:
    """One line per cell; on a terminal also a bar that stays below them."""

    def __init__(self, name, nb):
        self.name = name
        self.code = [i for i, cell in enumerate(nb.cells) if cell.cell_type == 'code']
        self.bar = tqdm(total=len(self.code), unit='cell', leave=False, disable=None, desc=name)
        self.index = None

    def start(self, cell, cell_index):
        """Note that a cell starts (nbclient calls this)."""
        if cell.cell_type == 'code':
            self.index, self.since = cell_index, time.perf_counter()
            self.bar.set_postfix_str(label(cell))

    def end(self, cell, cell_index, **_):
        """Print the line of a cell that has ended (nbclient calls this, also when it failed)."""
        if cell_index != self.index:
            return
        position = self.code.index(cell_index) + 1
        seconds = time.perf_counter() - self.since
        line = f'{self.name}  cell {position}/{len(self.code)}  {seconds:6.1f} s  {label(cell)}'
        self.bar.write(line)
        sys.stdout.flush()
        self.bar.update()

    def where(self):
        """Return the number of the cell that was running last, as the lines count them."""
        if self.index is None:
            return 'before the first cell'
        return f'cell {self.code.index(self.index) + 1}/{len(self.code)}'


class Stop:
    """Ctrl-C while a notebook runs: the cell first, then the kernel; never a process left behind.

    nbclient's own answer to the signal is to take the kernel away, which gives a cell that started
    processes of its own no chance to end them. So the kernel is interrupted, as by the stop button
    of JupyterLab, and only taken away if that does not help, or at the second Ctrl-C.
    """

    PATIENCE = 10  # seconds; a cell inside a long MXNet operator sees an interrupt only after it

    def __init__(self):
        self.client = None
        self.asked = False

    def listen(self, **_):
        """Take the signals over from nbclient (which calls this when the kernel is up)."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._answer)

    def _answer(self):
        if self.asked:
            self._take_kernel_away()
        else:
            self.asked = True
            self.task = asyncio.ensure_future(self.client.km.interrupt_kernel())
            asyncio.get_running_loop().call_later(self.PATIENCE, self._take_kernel_away)

    def _take_kernel_away(self):
        self.task = asyncio.ensure_future(self.client.km.shutdown_kernel(now=True))


def execute(nb, folder, name, timeout):
    """Execute a notebook in place, a fresh kernel started in ``folder``.

    Raises
    ------
    ChapterError
        A cell raised, ran for over ``timeout`` seconds, or took the kernel with it; the message has
        the chapter, the cell's number and the error. ``nb`` then holds the outputs until there.
    Stopped
        By Ctrl-C or SIGTERM; the kernel has ended.
    """
    for cell in nb.cells:
        if cell.cell_type == 'code':
            cell.outputs, cell.execution_count = [], None
    progress, stop = Progress(name, nb), Stop()

    def start(cell, cell_index):
        if stop.asked:
            raise Stopped
        progress.start(cell, cell_index)

    stop.client = client = NotebookClient(
        nb,
        kernel_name='python3',
        timeout=timeout,
        resources={'metadata': {'path': str(folder)}},
        coalesce_streams=True,
        record_timing=False,
        # Messages to the kernel go over a local port: encrypted, or ipykernel warns.
        config=Config(KernelManager={'transport_encryption': 'auto'}),
        on_notebook_start=stop.listen,
        on_cell_execute=start,
        on_cell_executed=progress.end,
    )
    try:
        client.execute()
    except CellTimeoutError as error:
        raise ChapterError(
            f'{name}, {progress.where()} was stopped after {timeout} s; '
            'a slower machine may need a larger --timeout'
        ) from error
    except CellExecutionError as error:
        if stop.asked:
            raise Stopped from error
        cell = nb.cells[progress.index]
        trace = next((o for o in cell.outputs if o.output_type == 'error'), None)
        text = '\n'.join(trace.traceback) if trace else str(error)
        raise ChapterError(f'{name}, {progress.where()} failed:\n{text}') from error
    except asyncio.CancelledError as error:  # stopped while the kernel was starting
        raise Stopped from error
    except RuntimeError as error:  # nbclient's DeadKernelError is one
        if stop.asked:
            raise Stopped from error
        raise ChapterError(
            f'{name}, {progress.where()}: the kernel died ({error}); '
            'often there was too little memory'
        ) from error
    finally:
        progress.bar.close()


def normalise(nb):
    """Bring an executed notebook into the form it is stored in.

    Kernel and language say nothing about this machine, times of execution and the state of progress
    bars are dropped, and cells are counted from 1; sources, cell ids, tags and outputs stay.

    Raises
    ------
    ChapterError
        An output is an error or was written to stderr: such a notebook is not stored.
    """
    for position, cell in enumerate((c for c in nb.cells if c.cell_type == 'code'), 1):
        for output in cell.outputs:
            if output.output_type == 'error':
                raise ChapterError(f'cell {position} holds an error ({output.ename}): not stored')
            if output.get('name') == 'stderr' and output.text.strip():
                first = output.text.strip().splitlines()[0]
                raise ChapterError(f'cell {position} wrote to stderr ({first!r}): not stored')
        for output in cell.outputs:
            output.pop('transient', None)
    prefer_pictures(nb)
    for cell in nb.cells:
        if cell.cell_type == 'code':
            cell.outputs = [o for o in cell.outputs if WIDGET not in o.get('data', {})]
    for cell in nb.cells:
        tags = cell.metadata.get('tags')
        kept = {'tags': tags} if tags else {}
        if 'jupyter' in cell.metadata:  # which cells an author hides
            kept['jupyter'] = cell.metadata['jupyter']
        cell.metadata = nbformat.from_dict(kept)
    kept = {key: nb.metadata[key] for key in ('title', 'authors') if key in nb.metadata}
    nb.metadata = nbformat.from_dict(kept | {'kernelspec': KERNELSPEC, 'language_info': LANGUAGE})


def tidied(path):
    """Give the text of a chapter's file as ``--store`` would have written it, outputs as they are.

    What JupyterLab adds when it saves (its version, the state of widgets, times) is gone.

    Raises
    ------
    ChapterError
        An output is an error or was written to stderr.
    """
    nb = nbformat.read(path, as_version=4)
    normalise(nb)
    return nbformat.writes(nb) + '\n'


def write(path, text):
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    partial = path.with_name(path.name + '.part')
    partial.write_text(text, encoding='utf-8')
    os.replace(partial, path)


def save(nb, folder, build, name):
    """Leave ``<name>.ipynb`` and ``<name>.html`` in ``build``, figures embedded."""
    write(build / f'{name}.ipynb', nbformat.writes(nb) + '\n')
    write(build / f'{name}.html', page_of(nb, folder, name))


def run_chapter(path, build, timeout, store):
    """Execute one chapter, leave it in ``build`` and, if asked to, store it where it was.

    Raises
    ------
    ChapterError
        The chapter failed, or cannot be stored.
    """
    nb = nbformat.read(path, as_version=4)
    for old in build.glob(f'{path.stem}.*'):
        old.unlink()
    since = time.perf_counter()
    try:
        execute(nb, path.parent, path.stem, timeout)
    except BaseException:
        save(nb, path.parent, build, f'{path.stem}.failed')
        raise
    save(nb, path.parent, build, path.stem)
    if store:
        normalise(nb)
        write(path, nbformat.writes(nb) + '\n')
    seconds = time.perf_counter() - since
    print(f'{path.stem}  done in {seconds:.0f} s: {build.name}/{path.stem}.html', flush=True)


def main(arguments=None):
    """Run the chapters that the command line names.

    Returns
    -------
    int
        0; 1 where a chapter failed; 2 where there is no such chapter; 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog='run_notebooks', description=__doc__.split('\n')[0])
    parser.add_argument('--chapter', metavar='N', help='which: 1, or 1,3 (default: all there are)')
    parser.add_argument('--store', action='store_true', help='store the outputs in notebooks/ too')
    parser.add_argument(
        '--tidy', action='store_true', help='run nothing: bring what an editor saved into form'
    )
    parser.add_argument(
        '--timeout',
        type=int,
        default=900,
        metavar='S',
        help='seconds one cell may take (%(default)s)',
    )
    parser.add_argument('--notebooks', type=Path, default=ROOT / 'notebooks', metavar='DIR')
    parser.add_argument('--build', type=Path, default=ROOT / 'build', metavar='DIR')
    options = parser.parse_args(arguments)
    try:
        chapters = find_chapters(options.notebooks, options.chapter)
    except ChapterError as error:
        print(f'run_notebooks: {error}', file=sys.stderr)
        return 2
    options.build.mkdir(parents=True, exist_ok=True)
    try:
        for path in chapters:
            if options.tidy:
                write(path, tidied(path))
                continue
            missing = None if options.chapter else framework_missing(path)
            if missing:
                print(f'{path.stem}  left out: no {missing} is installed here (make setup TORCH=1)')
                continue
            run_chapter(path, options.build, options.timeout, options.store)
    except ChapterError as error:
        print(f'run_notebooks: {error}', file=sys.stderr)
        return 1
    except (Stopped, KeyboardInterrupt):
        print('\nrun_notebooks: stopped', file=sys.stderr)
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
