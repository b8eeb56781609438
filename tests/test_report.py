"""`make report`: what it finds is on the disk at once, and names nobody."""

import getpass
import json
import platform
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import report
from checkouts import ROOT
from nbformat.v4 import new_code_cell, new_notebook, new_output

PRINTS = {'outputs': [new_output('stream', text='2\n')], 'execution_count': 1}


def test_names_paths_and_addresses_are_taken_out():
    user, host = getpass.getuser(), platform.node()
    for text, left in {
        f'{ROOT}/tools/report.py:3': 'COURSE/tools/report.py:3',
        f'in {Path.home()}/.mxnet': 'in HOME/.mxnet',
        "File '/srv/lab 1/x.py'": "File '.../lab 1/x.py'",
        '/data/anna/pool.py and 1/2 s, a/b': '.../pool.py and 1/2 s, a/b',
        'C:\\Users\\anna\\x.txt': '.../x.txt',
        'at https://anna:word@mirror.example/simple now': 'at <address> now',
        '10.1.2.3, 127.0.0.1': '<address>, 127.0.0.1',
        'fe80::1, 02:42:ac:11:00:02': '<address>, <address>',
        'anna@example.org': '<address>',
        'cpu(0), 12:34:56, 550.54.14, 0000:01:00.0': 'cpu(0), 12:34:56, 550.54.14, 0000:01:00.0',
        '\x1b[31mred\x1b[0m': 'red',
        **({host: '<host>'} if len(host) > 2 else {}),
        **({f'by {user}': 'by <user>'} if len(user) > 2 and user != 'root' else {}),
    }.items():
        assert report.scrub(text) == left
    assert report.scrub({'a': ['/x/y/z', 1]}) == {'a': ['.../z', 1]}


def test_killed_in_the_middle_it_has_what_it_had(tmp_path, started):
    private = "import os\nraise OSError(os.path.expanduser('~/x') + ' 10.1.2.3')"
    for name, *cells in (
        ('01-good', new_code_cell('print(2)', **PRINTS)),
        ('02-bad', new_code_cell('print(2)', **PRINTS), new_code_cell(private)),
        ('03-long', new_code_cell('print(2)', **PRINTS),
         new_code_cell('import time\ntime.sleep(600)')),
    ):  # fmt: skip
        kernel = {'kernelspec': {'name': 'python3', 'display_name': '', 'language': 'python'}}
        nbformat.write(new_notebook(cells=cells, metadata=kernel), tmp_path / f'{name}.ipynb')
    command = [sys.executable, ROOT / 'tools/report.py', '--notebooks', tmp_path, '--out', tmp_path]

    def found():
        return json.loads((tmp_path / 'report.json').read_text())

    with subprocess.Popen(command, stdout=-1, stderr=-2, text=True) as process:
        deadline = time.monotonic() + 400
        while not (tmp_path / 'report.json').exists() or not found()['chapters'][2]['cells']:
            assert process.poll() is None and time.monotonic() < deadline, process.stdout.read()
            time.sleep(0.1)
        process.kill()
    now = found()
    assert not now['finished'] and now['bench']['verdict'] == 'not reached'
    assert now['machine'] and now['versions'] and now['doctor']
    good, bad, late = now['chapters']
    assert (good['verdict'], good['cells'], good['of']) == ('passed', 1, 1)
    assert (bad['verdict'], bad['cells'], bad['of']) == ('failed', 1, 2)
    assert 'OSError: HOME/x <address>' in bad['failure']
    assert (late['verdict'], late['cells']) == ('stopped', 1)
    text = (tmp_path / 'report.md').read_text()
    assert 'OSError: HOME' in text and '| 01-good' in text and 'stopped before its end' in text
    for private in (str(ROOT), str(Path.home()), str(tmp_path)):
        assert private not in text + json.dumps(now)
