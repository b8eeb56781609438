"""What the README and the book tell a reader to type is typed here, on less work where need be."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import psutil
import pytest
from checkouts import ROOT, call
from nbformat.v4 import new_code_cell, new_notebook

PAGES = [ROOT / 'README.md', *sorted(ROOT.glob('book/*.md'))]
README = '\n'.join(path.read_text(encoding='utf8') for path in PAGES)
if not (ROOT / '.venv/bin/python').exists():
    pytest.skip("needs the environment of 'make setup'", allow_module_level=True)


def test_run_executes_a_chapter_and_bench_prints_its_table(tmp_path):
    notebooks, build = tmp_path / 'notebooks', tmp_path / 'build'
    notebooks.mkdir()
    nb = new_notebook(cells=[new_code_cell('import mgpu_helpers')])
    for chapter in ('01-one', '02-two'):
        nbformat.write(nb, notebooks / f'{chapter}.ipynb')
    arguments = f"RUN_ARGS=--notebooks '{notebooks}' --build '{build}'"
    done = call(ROOT, 'make', 'run', 'CHAPTER=1', arguments)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in build.iterdir()) == ['01-one.html', '01-one.ipynb']
    arguments = "BENCH_ARGS=--rounds 1 --no-store --only 'import mgpu_helpers'"
    shown = call(ROOT, 'make', 'bench', arguments).stdout
    assert re.search(r'^import mgpu_helpers +0\.\d+ s ', shown, re.MULTILINE), shown


def test_lab_opens_on_the_first_chapter():
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    arguments = f'--no-browser --port={port} --IdentityProvider.token=t'
    options = {'stderr': subprocess.STDOUT, 'text': True, 'start_new_session': True}
    command = ['make', 'lab', f'LAB_ARGS={arguments}']
    lab = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, **options)
    try:
        started = time.monotonic()
        for line in lab.stdout:
            if f':{port}/lab' in line:
                break
            assert time.monotonic() - started < 120
        assert '/lab/tree/notebooks/01-multiple-gpus-scratch.ipynb' in line
        content = b''
        while not content:  # it says its address a moment before it listens
            assert time.monotonic() - started < 120
            address = f'http://localhost:{port}/api/contents/notebooks?token=t'
            with contextlib.suppress(urllib.error.URLError):
                content = urllib.request.urlopen(address, timeout=60).read()
        assert b'01-multiple-gpus-scratch.ipynb' in content
        processes = psutil.Process(lab.pid).children(recursive=True)
    finally:
        os.killpg(lab.pid, signal.SIGTERM)
        lab.communicate(timeout=60)
    assert not psutil.wait_procs(processes, timeout=30)[1]


BLOCKS = re.findall(r'```python\n(.*?)```', README, re.DOTALL)


# The cell for hosted notebooks (test_setup has it) has commands in it.
@pytest.mark.parametrize('block', [b for b in BLOCKS if not re.search('^ *[!%]', b, re.MULTILINE)])
def test_python_in_the_readme_runs(block, tmp_path):
    subprocess.run([sys.executable, '-c', block], cwd=tmp_path, check=True, timeout=300)
    assert [path.suffix for path in tmp_path.iterdir()] == ['.png']
