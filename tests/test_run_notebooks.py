"""tools/run_notebooks.py, run for real on notebooks of a few cells."""

import json
import re
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest
import run_notebooks
from checkouts import ROOT
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

RUNNER = ROOT / 'tools/run_notebooks.py'


class Course:
    """A folder with chapters, and the runner."""

    def __init__(self, folder):
        self.notebooks, self.build = folder / 'notebooks', folder / 'build'
        self.notebooks.mkdir(parents=True)

    def write(self, name, *sources, **metadata):
        cells = [new_markdown_cell('# A chapter')]
        cells += [new_code_cell(source) for source in sources]
        path = self.notebooks / f'{name}.ipynb'
        nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
        return path

    def command(self, *arguments):
        folders = ['--notebooks', self.notebooks, '--build', self.build]
        return [str(word) for word in (sys.executable, RUNNER, *folders, *arguments)]

    def run(self, *arguments, code=0):
        """As the command does, without the two seconds of its imports."""
        words = self.command(*arguments)[2:]
        done = CliRunner().invoke(run_notebooks.main, words, catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    def built(self):
        return sorted(path.name for path in self.build.iterdir())


@pytest.fixture
def course(tmp_path, monkeypatch):
    monkeypatch.setenv('JUPYTER_PREFER_ENV_PATH', '1')
    return Course(tmp_path / 'a course')


def test_chapters_are_executed_and_left_as_notebooks(course):
    course.write('01-one', 'import os\nprint(os.path.basename(os.getcwd()))', '#@save\n6 * 7')
    course.write('02-two', "open('../build/seen', 'w').close()")
    before = (course.notebooks / '01-one.ipynb').read_bytes()
    done = course.run()
    assert done.stderr == ''
    one, two, *_ = (line.split('  ') for line in done.stdout.splitlines())
    assert one[:3] == ['01-one', 'cell 1/2', 'import os'] and re.fullmatch(r'\d+\.\d s', one[3])
    assert two[:3] == ['01-one', 'cell 2/2', '6 * 7']
    assert course.built() == ['01-one.ipynb', '02-two.ipynb', 'seen']
    _, first, second = nbformat.read(course.build / '01-one.ipynb', as_version=4).cells
    assert first.outputs[0].text == 'notebooks\n'
    assert second.outputs[0].data['text/plain'] == '42'
    assert (course.notebooks / '01-one.ipynb').read_bytes() == before


def test_chapters_are_picked_by_their_numbers_and_unknown_ones_refused(course):
    done = course.run(code=1)
    assert not done.stdout
    assert 'there are no chapters in' in done.stderr and str(course.notebooks) in done.stderr
    both = [course.write('01-one', '1'), course.write('02-two', '2')]
    for wanted, picked in ((None, both), ('2', both[1:])):
        assert run_notebooks.find_chapters(course.notebooks, wanted) == picked
    said = course.run('--chapter', '7', code=1).stderr
    assert "no chapter '7'" in said and '1  01-one.ipynb' in said
    assert not course.build.exists()


def test_a_chapter_without_its_framework_is_left_out_unless_asked_for(course, monkeypatch):
    course.write('05-five', 'if False:\n    from torch.nn import Linear')
    without = lambda name: None if name == 'torch' else sys.executable  # noqa: E731
    monkeypatch.setattr(run_notebooks, 'python_with', without)
    assert '05-five  left out: torch is not installed (make' in course.run().stdout
    assert course.built() == []
    course.run('--chapter', '5', '--store')
    assert course.built() == ['05-five.ipynb']
    nb = (course.notebooks / '05-five.ipynb').read_text()
    assert '"mgpu-torch"' in nb  # PyTorch's kernel, on every machine


def test_failing_cell_stops_the_run_and_is_named(course):
    course.write('01-one', "print('so far')", "raise ValueError('too hot')", "print('never')")
    course.write('02-two', 'pass')
    course.build.mkdir()
    (course.build / '01-one.ipynb').write_text('from an earlier run')
    said = course.run('--store', code=1).stderr
    assert '01-one, cell 2/3 failed:' in said and 'too hot' in said
    assert course.built() == ['01-one.failed.ipynb']
    nb = nbformat.read(course.build / '01-one.failed.ipynb', as_version=4)
    assert nb.cells[1].outputs[0].text == 'so far\n' and not nb.cells[3].outputs
    assert not nbformat.read(course.notebooks / '01-one.ipynb', as_version=4).cells[1].outputs


def test_a_cell_that_hangs_is_stopped_and_a_kernel_that_dies_is_said(course):
    course.write('01-one', 'import time\ntime.sleep(60)')
    assert 'cell 1/1 was stopped after 1 s' in course.run('--timeout', '1', code=1).stderr
    course.write('01-one', 'import os\nos.kill(os.getpid(), 9)')
    assert '01-one, cell 1/1: the kernel died' in course.run(code=1).stderr


def test_stopping_leaves_no_process(course):
    source = """
import subprocess, time
child = subprocess.Popen(['sleep', '60'])
try:
    open('started', 'w').close()
    time.sleep(60)
finally:
    child.kill()"""
    course.write('01-one', source)
    with subprocess.Popen(course.command(), stdout=-1, stderr=-1, text=True) as process:
        deadline = time.monotonic() + 60
        while not (course.notebooks / 'started').exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 2  # the kernel, and what the cell started
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert 'Aborted!' in errors and 'Traceback' not in errors
    assert psutil.wait_procs(below, timeout=5)[1] == []
    assert '01-one.failed.ipynb' in course.built()


BOTH = """
from ipywidgets import IntSlider
class Both:
    def _repr_mimebundle_(self, **_):
        return {**IntSlider()._repr_mimebundle_(), 'image/png': b'picture'}
Both()
"""


def test_what_is_stored_is_the_same_each_time_and_without_what_an_editor_adds(course):
    theirs = {'kernelspec': {'display_name': 'mine', 'name': 'other'}, 'widgets': {'state': {}}}
    theirs['language_info'] = {'name': 'python', 'version': '2.7'}
    bar = 'from tqdm.notebook import tqdm\nfor _ in tqdm(range(2)):\n    pass'
    path = course.write('01-one', 'print(1)\nprint(2)', bar, BOTH, **theirs)
    nb = nbformat.read(path, as_version=4)
    nb.cells[1].metadata.update({'tags': ['nbval-ignore-output'], 'execution': {'a': 'b'}})
    nb.cells[1].outputs = [new_output('stream', name='stderr', text='of an earlier run')]
    ids = [cell.id for cell in nb.cells]
    nbformat.write(nb, path)
    stored = []
    for _ in range(2):
        course.run('--store')
        stored.append(path.read_bytes())
    assert stored[0] == stored[1]
    nb = nbformat.read(path, as_version=4)
    assert [cell.id for cell in nb.cells] == ids
    assert nb.cells[1].metadata == {'tags': ['nbval-ignore-output']}
    assert [output.text for output in nb.cells[1].outputs] == ['1\n2\n']
    assert [cell.get('execution_count') for cell in nb.cells] == [None, 1, 2, 3]
    assert set(nb.metadata) == {'kernelspec', 'language_info'}
    assert nb.metadata.kernelspec.name == 'python3' and 'version' not in nb.metadata.language_info
    assert 'widget-view' not in json.dumps(nb)
    # A widget that has a picture as well is kept as the picture.
    (output,) = nb.cells[3].outputs
    assert set(output.data) == {'text/plain', 'image/png'}

    # As JupyterLab saves it, and after --tidy, for which nothing runs.
    nb.cells[1].metadata['collapsed'] = False
    nb.metadata['widgets'] = {'state': {}}
    nb.metadata.language_info['version'] = '3.11.99'
    nbformat.write(nb, path)
    assert path.read_bytes() != stored[0]
    assert course.run('--tidy').output == ''
    assert path.read_bytes() == stored[0]


def test_errors_and_what_went_to_stderr_are_not_stored(course):
    for source, said in (
        ("import sys\nprint('careful', file=sys.stderr)", "cell 2 wrote to stderr ('careful')"),
        ('1 / 0', 'cell 2 raised an error (ZeroDivisionError): not stored'),
    ):
        path = course.write('01-one', 'pass', source)
        nb = nbformat.read(path, as_version=4)
        nb.cells[2].metadata.tags = ['raises-exception']  # it may raise, but not in what is stored
        nbformat.write(nb, path)
        before = path.read_bytes()
        assert said in course.run('--store', code=1).stderr
        assert path.read_bytes() == before
