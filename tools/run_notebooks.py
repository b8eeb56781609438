"""Execute the course's notebooks without a browser.

``make run`` calls this: every chapter whose framework is installed (or ``--chapter 1``, whatever is
installed) is executed from top to bottom in ``notebooks/``, in the kernel that its framework has,
with a line per cell, and left in
``build/`` as a notebook and as one HTML file that holds its figures. A cell that fails stops its
chapter and the run; what was done until then is left as ``build/<chapter>.failed.ipynb`` and
``.html``. With ``--store`` the executed notebook also replaces the one in ``notebooks/``, in a form
that differs from run to run only where results do.
"""

import asyncio
import os
import re
import runpy
import signal
import sys
import time
from pathlib import Path

import click
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError
from pages import WIDGET, page_of, prefer_pictures
from tqdm import tqdm
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
FOLDER = click.Path(path_type=Path)
PATIENCE = 10  # seconds; a cell inside a long MXNet operator sees an interrupt only after it
# The kernels' names, as tools/setup.sh registers them on every machine: where PyTorch has an
# environment of its own, its kernel starts the Python there. Chapters without PyTorch take the name
# that every Jupyter has.
KERNELS = {'torch': ('mgpu-torch', 'PyTorch'), None: ('python3', 'Python 3')}
# What a stored notebook says about its language: nothing that another machine would say otherwise.
LANGUAGE = dict(
    file_extension='.py', mimetype='text/x-python', name='python', pygments_lexer='ipython3'
)
# An import of what not every environment has.
FRAMEWORK = re.compile(r'^\s*(?:import|from) (mxnet|torch)\b', re.MULTILINE)
# Not imported: our package's settings are not to reach the notebooks' kernels through us.
python_with = runpy.run_path(str(ROOT / 'mgpu_helpers/processes/pythons.py'))['python_with']


class ChapterError(Exception):
    """A chapter cannot be run or stored; the message is the sentence for the reader."""


class Stopped(Exception):
    """Somebody pressed Ctrl-C, or asked this process to end."""


def find_chapters(folder, wanted=None):
    """The notebooks of the chapters ``wanted``, such as ``'1'`` or ``'1,3'``; else of all."""
    chapters = {p.name.split('-')[0].lstrip('0'): p for p in sorted(folder.glob('[0-9]*-*.ipynb'))}
    if not chapters:
        raise ChapterError(f"there are no chapters in '{folder}'")
    asked = (wanted or '').replace(',', ' ').split()
    for word in asked:
        if word.lstrip('0') not in chapters:
            there = '\n'.join(f'  {number}  {path.name}' for number, path in chapters.items())
            raise ChapterError(f"there is no chapter '{word}'; these there are:\n{there}")
    asked = {word.lstrip('0') for word in asked} or chapters
    return [path for number, path in chapters.items() if number in asked]


def frameworks(nb):
    """Which of MXNet and PyTorch a chapter imports: ``'mxnet'`` and ``'torch'``, in its order."""
    code = '\n'.join(cell.source for cell in nb.cells if cell.cell_type == 'code')
    return list(dict.fromkeys(FRAMEWORK.findall(code)))


def kernel_of(nb):
    """What a chapter's file says about its kernel: PyTorch's where it imports PyTorch."""
    name, title = KERNELS['torch' if 'torch' in frameworks(nb) else None]
    return {'display_name': title, 'language': 'python', 'name': name}


def label(cell):
    """A cell's first line that says something, shortened for a line of progress."""
    lines = (line.strip() for line in cell.source.splitlines())
    said = (line for line in lines if line and line != '#@save' and not line.startswith('%'))
    text = next(said, '(empty)')
    return text if len(text) <= 60 else text[:59] + '…'


class Run:
    """One notebook being executed: a line per cell, and below them a bar on a terminal.

    nbclient's own answer to Ctrl-C is to take the kernel away, which gives a cell that started
    processes of its own no chance to end them. So the kernel is interrupted, as by the stop button
    of JupyterLab, and only taken away if that does not help, or at the second Ctrl-C.
    """

    def __init__(self, nb, folder, name, timeout):
        self.nb, self.name, self.index, self.stopping = nb, name, None, False
        self.code = [i for i, cell in enumerate(nb.cells) if cell.cell_type == 'code']
        for i in self.code:
            nb.cells[i].update(outputs=[], execution_count=None)
        self.bar = tqdm(total=len(self.code), unit='cell', leave=False, disable=None, desc=name)
        self.client = NotebookClient(
            nb,
            kernel_name=kernel_of(nb)['name'],
            timeout=timeout,
            resources={'metadata': {'path': str(folder)}},
            coalesce_streams=True,
            record_timing=False,
            # Messages to the kernel go over a local port: encrypted, or ipykernel warns.
            config=Config(KernelManager={'transport_encryption': 'auto'}),
            on_notebook_start=self._listen,
            on_cell_execute=self._start,
            on_cell_executed=self._end,
        )

    def where(self):
        """The number of the cell that was running last, as the lines count them."""
        if self.index is None:
            return 'before the first cell'
        return f'cell {self.code.index(self.index) + 1}/{len(self.code)}'

    def _listen(self, **_):
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)

    def _stop(self):
        if self.stopping:
            self._take_kernel_away()
        else:
            self.stopping = True
            self.task = asyncio.ensure_future(self.client.km.interrupt_kernel())
            asyncio.get_running_loop().call_later(PATIENCE, self._take_kernel_away)

    def _take_kernel_away(self):
        self.task = asyncio.ensure_future(self.client.km.shutdown_kernel(now=True))

    def _start(self, cell, cell_index):
        if self.stopping:
            raise Stopped
        if cell.cell_type == 'code':
            self.index, self.since = cell_index, time.perf_counter()
            self.bar.set_postfix_str(label(cell))

    def _end(self, cell, cell_index, **_):  # also called when the cell failed
        if cell_index == self.index:
            seconds = time.perf_counter() - self.since
            self.bar.write(f'{self.name}  {self.where()}  {seconds:6.1f} s  {label(cell)}')
            sys.stdout.flush()
            self.bar.update()


def execute(nb, folder, name, timeout):
    """Execute a notebook in place, a fresh kernel started in ``folder``.

    A ChapterError names the chapter, the cell and the error: one that raised, ran for over
    ``timeout`` seconds, or took the kernel with it. ``nb`` then holds the outputs until there.
    After Ctrl-C or SIGTERM: Stopped, when the kernel has ended.
    """
    run = Run(nb, folder, name, timeout)
    try:
        run.client.execute()
    except CellTimeoutError as error:
        raise ChapterError(
            f'{name}, {run.where()} was stopped after {timeout} s; '
            'a slower machine may need a larger --timeout'
        ) from error
    except asyncio.CancelledError as error:  # stopped while the kernel was starting
        raise Stopped from error
    except (CellExecutionError, RuntimeError) as error:  # nbclient's DeadKernelError is the latter
        if run.stopping:
            raise Stopped from error
        if not isinstance(error, CellExecutionError):
            raise ChapterError(
                f'{name}, {run.where()}: the kernel died ({error}); '
                'often there was too little memory'
            ) from error
        traces = [o.traceback for o in nb.cells[run.index].outputs if o.output_type == 'error']
        text = '\n'.join(traces[0]) if traces else str(error)
        raise ChapterError(f'{name}, {run.where()} failed:\n{text}') from error
    finally:
        run.bar.close()


def normalise(nb):
    """Bring an executed notebook into the form it is stored in; refuse errors and stderr.

    Kernel and language say nothing about this machine, times of execution and the state of progress
    bars are dropped, and cells are counted from 1; sources, cell ids, tags and outputs stay.
    """
    prefer_pictures(nb)
    for position, cell in enumerate((c for c in nb.cells if c.cell_type == 'code'), 1):
        for output in cell.outputs:
            if output.output_type == 'error':
                raise ChapterError(f'cell {position} holds an error ({output.ename}): not stored')
            if output.get('name') == 'stderr' and output.text.strip():
                first = output.text.strip().splitlines()[0]
                raise ChapterError(f'cell {position} wrote to stderr ({first!r}): not stored')
            output.pop('transient', None)
        cell.outputs = [o for o in cell.outputs if WIDGET not in o.get('data', {})]
    for cell in nb.cells:  # tags, and which cells an author hides
        kept = {key: cell.metadata[key] for key in ('tags', 'jupyter') if cell.metadata.get(key)}
        cell.metadata = nbformat.from_dict(kept)
    kept = {key: nb.metadata[key] for key in ('title', 'authors') if key in nb.metadata}
    kept |= {'kernelspec': kernel_of(nb), 'language_info': LANGUAGE}
    nb.metadata = nbformat.from_dict(kept)


def tidied(path):
    """The text of a chapter's file as ``--store`` would have written it, outputs as they are.

    What JupyterLab adds when it saves (its version, the state of widgets, times) is gone.
    """
    nb = nbformat.read(path, as_version=4)
    normalise(nb)
    return nbformat.writes(nb) + '\n'


def write(path, text):
    """Write a file so that a reader sees the old one or the new one, never half of it."""
    partial = path.with_name(path.name + '.part')
    partial.write_text(text, encoding='utf-8')
    os.replace(partial, path)


def run_chapter(path, build, timeout, store):
    """Execute one chapter, leave it in ``build`` and, if asked to, store it where it was."""
    nb = nbformat.read(path, as_version=4)
    for old in build.glob(f'{path.stem}.*'):
        old.unlink()
    since, name = time.perf_counter(), f'{path.stem}.failed'
    try:
        execute(nb, path.parent, path.stem, timeout)
        name = path.stem
    finally:
        write(build / f'{name}.ipynb', nbformat.writes(nb) + '\n')
        write(build / f'{name}.html', page_of(nb, path.parent, name))
    if store:
        normalise(nb)
        write(path, nbformat.writes(nb) + '\n')
    seconds = time.perf_counter() - since
    print(f'{path.stem}  done in {seconds:.0f} s: {build.name}/{path.stem}.html', flush=True)


@click.command(help=__doc__.split('\n')[0])
@click.option('--chapter', metavar='N', help='Which: 1, or 1,3 (default: all there are).')
@click.option('--store', is_flag=True, help='Store the outputs in notebooks/ too.')
@click.option('--tidy', is_flag=True, help='Run nothing: bring what an editor saved into form.')
@click.option('--timeout', default=900, show_default=True, help='Seconds one cell may take.')
@click.option('--notebooks', type=FOLDER, default=ROOT / 'notebooks', metavar='DIR')
@click.option('--build', type=FOLDER, default=ROOT / 'build', metavar='DIR')
def main(chapter, store, tidy, timeout, notebooks, build):
    """Ends with 1 where a chapter failed, 2 where there is no such chapter, 130 after Ctrl-C."""
    try:
        chapters = find_chapters(notebooks, chapter)
    except ChapterError as error:
        click.echo(f'run_notebooks: {error}', err=True)
        sys.exit(2)
    build.mkdir(parents=True, exist_ok=True)
    try:
        for path in chapters:
            if tidy:
                write(path, tidied(path))
                continue
            wanted = frameworks(nbformat.read(path, as_version=4))
            missing = [name for name in wanted if not python_with(name)]
            if missing and not chapter:
                print(
                    f'{path.stem}  left out: no {missing[0]} is installed here (make setup TORCH=1)'
                )
            else:
                run_chapter(path, build, timeout, store)
    except ChapterError as error:
        click.echo(f'run_notebooks: {error}', err=True)
        sys.exit(1)
    except (Stopped, KeyboardInterrupt):
        click.echo('\nrun_notebooks: stopped', err=True)
        sys.exit(130)


if __name__ == '__main__':
    main()
