"""Execute the course's notebooks without a browser.

``make run`` calls this: it executes every chapter whose framework is installed (``--chapter 1``:
that one in any case) from top to bottom in ``notebooks/``, in its framework's kernel, prints a line
per cell, and writes the chapter to ``build/``. A failing cell ends the run; the outputs up to there
are in ``build/<chapter>.failed.ipynb``. With ``--store`` the executed notebook also replaces the
one in ``notebooks/``, in a form that differs between runs only where the results do.
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
from pages import WIDGET, prefer_pictures
from traitlets.config import Config

ROOT = Path(__file__).resolve().parent.parent
FOLDER = click.Path(path_type=Path)
PATIENCE = 10  # seconds; a cell notices an interrupt only after a long MXNet operator ends
# The kernels that tools/setup.sh registers on every machine: if PyTorch has a separate environment,
# its kernel starts the Python there. Chapters without PyTorch use the default kernel.
KERNELS = {'torch': ('mgpu-torch', 'PyTorch'), None: ('python3', 'Python 3')}
# A stored notebook's language info: only the parts that are the same on every machine.
LANGUAGE = dict(
    file_extension='.py', mimetype='text/x-python', name='python', pygments_lexer='ipython3'
)
KEPT = 'tags', 'jupyter', 'mystnb'  # the author's: cells that are hidden, a plot's alt text
# A kernel notices by itself that we have ended, unless a cell holds Python's lock. With this (prctl
# with PR_SET_PDEATHSIG and SIGKILL), Linux kills it.
END_WITH_US, LINUX = '__import__("ctypes").CDLL(None).prctl(1, 9)', sys.platform == 'linux'
FRAMEWORK = re.compile(r'^\s*(?:import|from) (mxnet|torch)\b', re.MULTILINE)
# Not imported, so that our package's settings do not leak into the notebooks' kernels.
python_with = runpy.run_path(str(ROOT / 'mgpu_helpers/processes/pythons.py'))['python_with']


class ChapterError(click.ClickException):
    """A chapter cannot be run or stored; the message is for the reader."""


def find_chapters(folder, wanted=None):
    """Return the notebook of the chapter ``wanted``, in a list, or all of them."""
    chapters = {p.name.split('-')[0].lstrip('0'): p for p in sorted(folder.glob('[0-9]*-*.ipynb'))}
    if not chapters:
        raise ChapterError(f"there are no chapters in '{folder}'")
    if wanted and wanted not in chapters:
        known = '\n'.join(f'  {number}  {path.name}' for number, path in chapters.items())
        raise ChapterError(f"there is no chapter '{wanted}'; the chapters are:\n{known}")
    return [chapters[wanted]] if wanted else [*chapters.values()]


def frameworks(nb):
    """Return which of ``'mxnet'`` and ``'torch'`` a chapter imports, in order of import."""
    code = '\n'.join(cell.source for cell in nb.cells if cell.cell_type == 'code')
    return list(dict.fromkeys(FRAMEWORK.findall(code)))


def kernel_of(nb):
    """Return a chapter's kernelspec: PyTorch's kernel if it imports PyTorch."""
    name, title = KERNELS['torch' if 'torch' in frameworks(nb) else None]
    return {'display_name': title, 'language': 'python', 'name': name}


def label(cell):
    """Return a cell's first line, shortened and without marks and magics."""
    lines = (line.strip() for line in cell.source.splitlines())
    code = (line for line in lines if line and line != '#@save' and not line.startswith('%'))
    text = next(code, '(empty)')
    return text if len(text) <= 60 else text[:59] + '…'


class Run:
    """Execute one notebook; print a line per cell: what it is, then the seconds it took.

    On Ctrl-C nbclient would kill the kernel, and a cell could not end the processes that it
    started. Here the kernel is interrupted, as with JupyterLab's stop button, and killed only if
    it has not stopped after ``PATIENCE`` seconds, or at the second Ctrl-C.
    """

    def __init__(self, nb, folder, name, timeout):
        self.nb, self.name, self.index, self.stopping = nb, name, None, False
        self.code = [i for i, cell in enumerate(nb.cells) if cell.cell_type == 'code']
        for i in self.code:
            nb.cells[i].update(outputs=[], execution_count=None)
        self.client = NotebookClient(
            nb,
            kernel_name=kernel_of(nb)['name'],
            timeout=timeout,
            resources={'metadata': {'path': str(folder)}},
            coalesce_streams=True,
            extra_arguments=[f'--IPKernelApp.exec_lines={END_WITH_US}'] * LINUX,
            record_timing=False,
            # Messages to the kernel go through a local port; ipykernel warns if not encrypted.
            config=Config(KernelManager={'transport_encryption': 'auto'}),
            on_notebook_start=self._listen,
            on_cell_execute=self._start,
            on_cell_executed=self._end,
        )

    def where(self):
        """Describe the last cell that was started, with its number among the code cells."""
        if self.index is None:
            return 'before the first cell'
        return f'cell {self.code.index(self.index) + 1}/{len(self.code)}'

    def _listen(self, **_):
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)

    def _stop(self):
        if self.stopping:
            self._kill_kernel()
        else:
            self.stopping = True
            self.task = asyncio.ensure_future(self.client.km.interrupt_kernel())
            asyncio.get_running_loop().call_later(PATIENCE, self._kill_kernel)

    def _kill_kernel(self):
        self.task = asyncio.ensure_future(self.client.km.shutdown_kernel(now=True))

    def _start(self, cell, cell_index):
        if self.stopping:
            raise click.Abort
        if cell.cell_type == 'code':
            self.index, self.since = cell_index, time.perf_counter()
            print(f'{self.name}  {self.where()}  {label(cell)}', end='', flush=True)

    def _end(self, cell, cell_index, **_):  # also called after a failed cell
        if cell_index == self.index:
            print(f'  {time.perf_counter() - self.since:.1f} s', flush=True)


def execute(nb, folder, name, timeout):
    """Execute a notebook in place, in a fresh kernel started in ``folder``.

    A ChapterError names the chapter, the cell and the error: the cell raised, ran for more than
    ``timeout`` seconds, or the kernel died. ``nb`` then has the outputs up to that point. After
    Ctrl-C or SIGTERM, click.Abort is raised once the kernel has ended.
    """
    # A progress bar leaves an empty output behind.
    os.environ['TQDM_DISABLE'] = '1'
    run = Run(nb, folder, name, timeout)
    try:
        run.client.execute()
    except CellTimeoutError as error:
        raise ChapterError(
            f'{name}, {run.where()} was stopped after {timeout} s; '
            'a slower machine may need a larger --timeout'
        ) from error
    except asyncio.CancelledError as error:  # stopped while the kernel was starting
        raise click.Abort from error
    except (CellExecutionError, RuntimeError) as error:  # DeadKernelError is a RuntimeError
        if run.stopping:
            raise click.Abort from error
        if not isinstance(error, CellExecutionError):
            raise ChapterError(
                f'{name}, {run.where()}: the kernel died ({error}); it often means a lack of memory'
            ) from error
        traces = [o.traceback for o in nb.cells[run.index].outputs if o.output_type == 'error']
        text = '\n'.join(traces[0]) if traces else str(error)
        raise ChapterError(f'{name}, {run.where()} failed:\n{text}') from error


def normalise(nb):
    """Convert an executed notebook to its stored form; refuse errors and stderr.

    Metadata about the kernel and this machine, execution times and progress bars are dropped.
    Sources, cell ids, tags, alt texts and outputs stay.
    """
    prefer_pictures(nb)
    for position, cell in enumerate((c for c in nb.cells if c.cell_type == 'code'), 1):
        for output in cell.outputs:
            if output.output_type == 'error':
                raise ChapterError(f'cell {position} raised an error ({output.ename}): not stored')
            if output.get('name') == 'stderr' and output.text.strip():
                first = output.text.strip().splitlines()[0]
                raise ChapterError(f'cell {position} wrote to stderr ({first!r}): not stored')
            output.pop('transient', None)
        cell.outputs = [o for o in cell.outputs if WIDGET not in o.get('data', {})]
        cell.outputs = [o for o in cell.outputs if o.get('data') != {'text/plain': ''}]
    for cell in nb.cells:
        kept = {key: cell.metadata[key] for key in KEPT if cell.metadata.get(key)}
        cell.metadata = nbformat.from_dict(kept)
    kept = {key: nb.metadata[key] for key in ('title', 'authors') if key in nb.metadata}
    kept |= {'kernelspec': kernel_of(nb), 'language_info': LANGUAGE}
    nb.metadata = nbformat.from_dict(kept)


def tidied(path):
    """Return a chapter's file as ``--store`` would write it, with its present outputs.

    Everything that JupyterLab adds on saving (its version, widget state, times) is removed.
    """
    nb = nbformat.read(path, as_version=4)
    normalise(nb)
    return nbformat.writes(nb) + '\n'


def write(path, text):
    """Write a file atomically: a reader sees the old text or the new one, never a partial file."""
    partial = path.with_name(path.name + '.part')
    partial.write_text(text, encoding='utf-8')
    os.replace(partial, path)


def run_chapter(path, build, timeout, store):
    """Execute one chapter and write it to ``build``; with ``store``, also overwrite its source."""
    nb = nbformat.read(path, as_version=4)
    for old in build.glob(f'{path.stem}.*'):
        old.unlink()
    since, name = time.perf_counter(), f'{path.stem}.failed'
    try:
        execute(nb, path.parent, path.stem, timeout)
        name = path.stem
    finally:
        write(build / f'{name}.ipynb', nbformat.writes(nb) + '\n')
    if store:
        normalise(nb)
        write(path, nbformat.writes(nb) + '\n')
    seconds = time.perf_counter() - since
    print(f'{path.stem}  done in {seconds:.0f} s: {build.name}/{path.stem}.ipynb', flush=True)


@click.command(help=__doc__.split('\n')[0])
@click.option('--chapter', metavar='N', help='Chapter to run (default: all).')
@click.option('--store', is_flag=True, help='Also store the outputs in notebooks/.')
@click.option('--tidy', is_flag=True, help='Run nothing; remove what an editor added on saving.')
@click.option('--timeout', default=900, show_default=True, help='Maximum seconds per cell.')
@click.option('--notebooks', type=FOLDER, default=ROOT / 'notebooks', metavar='DIR')
@click.option('--build', type=FOLDER, default=ROOT / 'build', metavar='DIR')
def main(chapter, store, tidy, timeout, notebooks, build):
    """Run chapters until one fails."""
    chapters = find_chapters(notebooks, chapter)
    build.mkdir(parents=True, exist_ok=True)
    for path in chapters:
        if tidy:
            write(path, tidied(path))
            continue
        wanted = frameworks(nbformat.read(path, as_version=4))
        missing = [name for name in wanted if not python_with(name)]
        if missing and not chapter:
            print(f'{path.stem}  left out: {missing[0]} is not installed (make setup TORCH=1)')
        else:
            run_chapter(path, build, timeout, store)


if __name__ == '__main__':
    main()
