"""tools/run_notebooks.py, run for real on notebooks of a few cells."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

RUNNER = Path(__file__).parent.parent / 'tools' / 'run_notebooks.py'
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="4"/></svg>'


class Course:
    """A folder with chapters, an image beside them, and the runner."""

    def __init__(self, folder):
        self.notebooks, self.build = folder / 'a course/notebooks', folder / 'a course/build'
        self.notebooks.mkdir(parents=True)
        (folder / 'a course/img').mkdir()
        (folder / 'a course/img/dot.svg').write_text(PICTURE)

    def write(self, name, *sources, **metadata):
        cells = [new_markdown_cell('# A chapter\n\n![a dot](../img/dot.svg)')]
        cells += [new_code_cell(source) for source in sources]
        path = self.notebooks / f'{name}.ipynb'
        nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
        return path

    def command(self, *arguments):
        folders = ['--notebooks', self.notebooks, '--build', self.build]
        return [str(word) for word in (sys.executable, RUNNER, *folders, *arguments)]

    def run(self, *arguments):
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, timeout=120, env=ENV
        )

    def built(self):
        return sorted(path.name for path in self.build.iterdir())


ENV = {**os.environ, 'JUPYTER_PREFER_ENV_PATH': '1'}


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path)


def test_chapters_are_executed_and_left_as_notebook_and_page(course):
    course.write('01-one', 'import os\nprint(os.path.basename(os.getcwd()))', '#@save\n6 * 7')
    course.write('02-two', "open('../build/seen', 'w').close()")
    before = (course.notebooks / '01-one.ipynb').read_bytes()
    done = course.run()
    assert done.returncode == 0, done.stderr
    assert done.stderr == ''
    lines = done.stdout.splitlines()
    assert [line.split('  ')[:2] for line in lines[:2]] == [
        ['01-one', 'cell 1/2'],
        ['01-one', 'cell 2/2'],
    ]
    assert lines[0].endswith('  import os') and lines[1].endswith('  6 * 7')
    assert course.built() == [
        '01-one.html',
        '01-one.ipynb',
        '02-two.html',
        '02-two.ipynb',
        'seen',
    ]
    nb = nbformat.read(course.build / '01-one.ipynb', as_version=4)
    assert nb.cells[1].outputs[0].text == 'notebooks\n'
    assert nb.cells[2].outputs[0].data['text/plain'] == '42'
    assert (course.notebooks / '01-one.ipynb').read_bytes() == before
    page = (course.build / '01-one.html').read_text()
    assert '../img/dot.svg' not in page
    assert page.count('<img alt="a dot" src="data:image/svg+xml;base64,') == 1


def test_one_chapter_is_picked_by_its_number(course):
    course.write('01-one', '1')
    course.write('02-two', '2')
    assert course.run('--chapter', '2').returncode == 0
    assert course.built() == ['02-two.html', '02-two.ipynb']


@pytest.mark.parametrize('wanted', ['7', '1,one'])
def test_unknown_chapter_lists_those_there_are(course, wanted):
    course.write('01-one', '1')
    done = course.run('--chapter', wanted)
    assert done.returncode == 2
    assert f"no chapter '{wanted.split(',')[-1]}'" in done.stderr
    assert '1  01-one.ipynb' in done.stderr
    assert not course.build.exists()


def test_a_chapter_without_its_framework_is_left_out_unless_asked_for(course):
    course.write('01-one', 'pass')
    course.write('05-five', 'import os\nfrom torch.nn import Linear')
    code = (
        'import importlib.util, runpy, sys; found = importlib.util.find_spec\n'
        'importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name)\n'
        'sys.path[0] = sys.argv[1].rpartition("/")[0]\n'  # as if Python had been given the file
        'runpy.run_path(sys.argv.pop(1), run_name="__main__")'
    )
    command = [sys.executable, '-c', code, *course.command()[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENV)
    assert done.returncode == 0, done.stderr
    assert '05-five  left out: no torch is installed here' in done.stdout
    assert course.built() == ['01-one.html', '01-one.ipynb']


def test_no_chapters_at_all_is_said(course):
    done = course.run()
    assert (done.returncode, done.stdout) == (2, '')
    assert 'there are no chapters in' in done.stderr and str(course.notebooks) in done.stderr


def test_failing_cell_stops_the_run_and_is_named(course):
    course.write('01-one', "print('so far')", "raise ValueError('too hot')", "print('never')")
    course.write('02-two', 'pass')
    course.build.mkdir()
    (course.build / '01-one.ipynb').write_text('from an earlier run')
    done = course.run('--store')
    assert done.returncode == 1
    assert '01-one, cell 2/3 failed:' in done.stderr and 'too hot' in done.stderr
    assert course.built() == ['01-one.failed.html', '01-one.failed.ipynb']
    nb = nbformat.read(course.build / '01-one.failed.ipynb', as_version=4)
    assert nb.cells[1].outputs[0].text == 'so far\n' and not nb.cells[3].outputs
    assert 'too hot' in (course.build / '01-one.failed.html').read_text()
    assert not nbformat.read(course.notebooks / '01-one.ipynb', as_version=4).cells[1].outputs


def test_cell_that_hangs_is_stopped(course):
    course.write('01-one', 'import time\ntime.sleep(60)')
    done = course.run('--timeout', '2')
    assert done.returncode == 1
    assert 'cell 1/1 was stopped after 2 s' in done.stderr


def test_kernel_that_dies_is_said(course):
    course.write('01-one', 'import os\nos.kill(os.getpid(), 9)')
    done = course.run()
    assert done.returncode == 1
    assert '01-one, cell 1/1: the kernel died' in done.stderr


def test_stopping_leaves_no_process(course):
    source = (
        'import subprocess, time\n'
        "child = subprocess.Popen(['sleep', '60'])\n"
        'try:\n'
        "    open('started', 'w').close()\n"
        '    time.sleep(60)\n'
        'finally:\n'
        '    child.kill()'
    )
    course.write('01-one', source)
    command = course.command()
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=ENV) as process:
        deadline = time.monotonic() + 60
        while not (course.notebooks / 'started').exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        below = psutil.Process(process.pid).children(recursive=True)
        assert len(below) >= 2  # the kernel, and what the cell started
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert 'run_notebooks: stopped' in errors and 'Traceback' not in errors
    assert psutil.wait_procs(below, timeout=5)[1] == []
    assert '01-one.failed.ipynb' in course.built()


def test_store_writes_the_same_bytes_each_time(course):
    path = course.write(
        '01-one',
        'print(1)\nprint(2)',
        'from tqdm.notebook import tqdm\nfor _ in tqdm(range(2)):\n    pass',
        kernelspec={'display_name': 'mine', 'language': 'python', 'name': 'other'},
        language_info={'name': 'python', 'version': '2.7'},
        widgets={'state': {}},
    )
    nb = nbformat.read(path, as_version=4)
    nb.cells[1].metadata.update({'tags': ['nbval-ignore-output'], 'execution': {'a': 'b'}})
    nb.cells[1].outputs = [new_output('stream', name='stderr', text='of an earlier run')]
    ids = [cell.id for cell in nb.cells]
    nbformat.write(nb, path)
    stored = []
    for _ in range(2):
        done = course.run('--store')
        assert done.returncode == 0, done.stderr
        stored.append(path.read_bytes())
    assert stored[0] == stored[1]
    nb = nbformat.read(path, as_version=4)
    assert [cell.id for cell in nb.cells] == ids
    assert nb.cells[1].metadata == {'tags': ['nbval-ignore-output']}
    assert [output.text for output in nb.cells[1].outputs] == ['1\n2\n']
    assert [cell.get('execution_count') for cell in nb.cells] == [None, 1, 2]
    assert set(nb.metadata) == {'kernelspec', 'language_info'}
    assert nb.metadata.kernelspec.name == 'python3'
    assert 'version' not in nb.metadata.language_info
    assert 'widget' not in json.dumps(nb)


def test_a_widget_with_a_picture_is_kept_as_the_picture(course):
    both = (
        'from ipywidgets import IntSlider\n'
        'class Both:\n'
        '    def _repr_mimebundle_(self, **_):\n'
        '        view = IntSlider()._repr_mimebundle_()\n'
        "        return {**view, 'text/plain': 'slider', 'image/png': b'picture'}\n"
        'Both()'
    )
    path = course.write('01-one', both)
    assert course.run('--store').returncode == 0
    (output,) = nbformat.read(path, as_version=4).cells[-1].outputs
    assert set(output.data) == {'text/plain', 'image/png'}
    page = (path.parent.parent / 'build' / '01-one.html').read_text()
    assert 'data:image/png;base64,' in page and 'widget-view' not in page.split('<main')[-1]


def test_store_refuses_what_wrote_to_stderr(course):
    path = course.write('01-one', 'pass', "import sys\nprint('careful', file=sys.stderr)")
    before = path.read_bytes()
    done = course.run('--store')
    assert done.returncode == 1
    assert "cell 2 wrote to stderr ('careful')" in done.stderr
    assert path.read_bytes() == before


def test_store_refuses_an_error_that_a_tag_allows(course):
    path = course.write('01-one', '1 / 0')
    nb = nbformat.read(path, as_version=4)
    nb.cells[1].metadata.tags = ['raises-exception']
    nbformat.write(nb, path)
    done = course.run('--store')
    assert done.returncode == 1
    assert 'cell 1 holds an error (ZeroDivisionError): not stored' in done.stderr


def test_what_jupyterlab_adds_when_it_saves_is_taken_out_and_nothing_runs(course):
    course.write('01-one', 'print(6 * 7)')
    course.run('--store')
    path = course.notebooks / '01-one.ipynb'
    stored = path.read_bytes()
    saved = nbformat.reads(stored.decode(), as_version=4)
    saved.cells[1].metadata['collapsed'] = False
    saved.metadata['widgets'] = {'state': {}}
    saved.metadata.language_info['version'] = '3.11.99'
    nbformat.write(saved, path)
    assert path.read_bytes() != stored
    done = course.run('--tidy')
    assert (done.returncode, done.stdout) == (0, '')
    assert path.read_bytes() == stored
