"""A developer may leave out chapters that have passed and of which nothing has changed since."""

import json
import os
import subprocess
import sys

CELL = {'cell_type': 'code', 'execution_count': 1, 'metadata': {}, 'outputs': [], 'source': 'a = 1'}


def test_a_chapter_that_has_passed_is_left_out_until_something_changes(checkout):
    notebook = checkout / 'notebooks' / '09-small.ipynb'
    notebook.parent.mkdir()
    kernel = {'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}}

    def write(*sources):
        cells = [CELL | {'source': source} for source in sources]
        page = {'cells': cells, 'metadata': kernel, 'nbformat': 4, 'nbformat_minor': 4}
        notebook.write_text(json.dumps(page))

    def run(*words, **env):
        command = [sys.executable, '-m', 'pytest', '--nbval', str(notebook), *words]
        done = subprocess.run(
            command, cwd=checkout, env=os.environ | env, capture_output=True, text=True
        )
        return done.stdout

    write('a = 1', 'b = 1 / 0')
    assert '1 failed, 1 passed' in run()
    assert '1 failed, 1 passed' in run(CHANGED='1')  # what has failed is run again
    write('a = 1', 'b = 2')
    assert '2 passed' in run()
    assert 'nothing that it is made of has changed' in run(CHANGED='1')
    (checkout / 'mgpu_helpers' / 'checks.py').open('a').write('# changed\n')
    assert '2 passed' in run(CHANGED='1')
