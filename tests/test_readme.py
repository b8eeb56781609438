"""The code that README and the book give a reader to run is run here."""

import re
import subprocess
import sys

import pytest
from checkouts import ROOT

PAGES = [ROOT / 'README.md', *sorted(ROOT.glob('book/*.md'))]
TEXT = '\n'.join(path.read_text(encoding='utf8') for path in PAGES)
BLOCKS = re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL)


# The cell for hosted notebooks (test_setup has it) has commands in it.
@pytest.mark.parametrize('block', [b for b in BLOCKS if not re.search('^ *[!%]', b, re.MULTILINE)])
def test_python_in_the_readme_runs(block, tmp_path):
    subprocess.run([sys.executable, '-c', block], cwd=tmp_path, check=True, timeout=300)
    assert [path.suffix for path in tmp_path.iterdir()] == ['.png']
