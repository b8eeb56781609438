"""The type hints: complete, right as far as mypy sees, and found by users; lint and spelling."""

import json
import sys
import tomllib
import zipfile

from checkouts import ROOT, call


def run(*command):
    """Run a tool of this environment on the checkout."""
    return call(ROOT, sys.executable, '-m', *map(str, command), MYPYPATH=ROOT, NO_COLOR=1)


def test_mypy_finds_nothing_wrong_and_no_function_without_hints():
    """12 seconds of computing where no earlier run has left a cache, then half of one."""
    checked = run('mypy')
    assert checked.returncode == 0, checked.stdout + checked.stderr
    options = tomllib.loads((ROOT / 'pyproject.toml').read_text())['tool']['mypy']
    assert options['disallow_untyped_defs'] and options['check_untyped_defs']


def test_the_wheel_holds_what_editors_read(tmp_path):
    built = run('hatchling', 'build', '-t', 'wheel', '-d', tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    [wheel] = tmp_path.glob('*.whl')
    listed = set(zipfile.ZipFile(wheel).namelist())
    stubs = [str(stub.relative_to(ROOT)) for stub in (ROOT / 'mgpu_helpers').rglob('*.pyi')]
    assert stubs and listed >= {'mgpu_helpers/py.typed', *stubs}


def test_lint_and_format():
    for words in (['check'], ['format', '--check']):
        checked = run('ruff', *words, '.')
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_spelling(tmp_path):
    """Notebooks without outputs: chapter 9's model misspells."""
    listed = call(ROOT, 'git', 'ls-files', '*.py', '*.md', '*.toml', '*.yml', '*.sh', '*.ipynb')
    paths = [path for name in listed.stdout.split() if (path := ROOT / name).exists()]
    texts = [path for path in paths if path.suffix != '.ipynb']
    for number, path in enumerate(set(paths) - set(texts)):
        cells = json.loads(path.read_text())['cells']
        texts.append(tmp_path / f'{number}-{path.stem}.md')
        texts[-1].write_text('\n\n'.join(''.join(cell['source']) for cell in cells))
    checked = run('codespell_lib', *texts)
    assert len(texts) > 100 and checked.returncode == 0, checked.stdout + checked.stderr
