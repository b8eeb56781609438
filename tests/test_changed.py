"""A developer may leave out chapters that have passed and of which nothing has changed since."""

import json
import os
import subprocess
import sys

import pytest

CELL = {'cell_type': 'code', 'execution_count': 1, 'metadata': {}, 'outputs': []}
KERNEL = {'kernelspec': {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}}


@pytest.mark.slow
def test_a_chapter_that_has_passed_is_left_out_until_something_changes(checkout):
    for name, sources in {'08-good': ['a = 1'], '09-bad': ['a = 1', '1 / 0']}.items():
        cells = [CELL | {'source': source} for source in sources]
        page = {'cells': cells, 'metadata': KERNEL, 'nbformat': 4, 'nbformat_minor': 4}
        (checkout / 'notebooks' / f'{name}.ipynb').write_text(json.dumps(page))

    def run():
        return subprocess.run(
            [sys.executable, '-m', 'pytest', '--nbval', 'notebooks'],
            cwd=checkout, env=os.environ | {'CHANGED': '1'}, capture_output=True, text=True,
        ).stdout  # fmt: skip

    assert '1 failed, 2 passed' in run()
    again = run()  # what has failed is run again
    assert '1 failed, 1 passed, 1 skipped' in again and 'nothing that it depends on' in again
    (checkout / 'mgpu_helpers' / 'runtime.py').open('a').write('# changed\n')
    assert '1 failed, 2 passed' in run()
