"""The lists in CONTRIBUTING of what one adds: followed in a copy, they are enough."""

import json
import re
import shutil
import sys

import pytest
from checkouts import ROOT, call, tracked
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

PAGE = (ROOT / '.github' / 'CONTRIBUTING.md').read_text(encoding='utf8')
TOY = """
# A toy

*Chapter*

What is twice two?

**Four.**
---
#@save
def twice(x):
    return 2 * x
---
twice(2)
---
## Summary

* Four.
---
## Exercises

Change the code, run it again, explain what you see. Those marked *on paper* need no computer; \
their answers are hidden below them.

1. **Three times** (on paper). What is twice three?

<details><summary>Answer</summary>
Six.
</details>
---
## Next

[Training on multiple GPUs from scratch](01-multiple-gpus-scratch.ipynb) is where all begins.
"""
PLAN = """
  10:
    opening: 1
    sections:
    - {section: Summary, minutes: 1}
    - {section: Exercises, minutes: 1, task: Three times}
    - {section: Next, minutes: 1}
"""


def listed(what):
    """Return the numbered files that CONTRIBUTING lists below ``**what**``."""
    part = PAGE.split(f'\n**{what}**')[1].split('\n\n**')[0]
    return re.findall(r'^\d+\. `([^`]+)`', part, re.MULTILINE)


class Copy:
    """A copy of the repository: its files can be changed, and its tools and tests run."""

    def __init__(self, folder):
        self.folder = folder
        for name in tracked():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        git = ('git', '-c', 'user.name=A', '-c', 'user.email=a@example.org')
        for words in (['init', '--quiet'], ['add', '.'], ['commit', '--quiet', '-m', 'as it was']):
            assert call(folder, *git, *words).returncode == 0

    def change(self, name, old, new):
        """Replace one text in a file by another; '' appends, or makes a new file."""
        path = self.folder / name
        text = path.read_text(encoding='utf8') if path.exists() else ''
        assert text.count(old) == 1 or not old, f'{name} has {text.count(old)} of {old!r}'
        path.write_text(text.replace(old, new) if old else text + new, encoding='utf8')

    def python(self, *words):
        path = f'{self.folder}:{self.folder / "exercises"}'
        done = call(self.folder, sys.executable, *words, PYTHONPATH=path)
        assert done.returncode == 0, done.stdout + done.stderr

    def changed(self):
        said = call(self.folder, 'git', 'status', '--porcelain', '--untracked-files=all').stdout
        return {line[3:] for line in said.splitlines()}


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path)


def test_a_chapter_is_added_by_what_is_listed(copy):
    cells = TOY.strip().split('\n---\n')
    kinds = [new_code_cell if i in (1, 2) else new_markdown_cell for i in range(len(cells))]
    entry = '- {file: 10-toy, question: "What is twice two?", framework: mxnet, read: 1, run: 1, '
    copy.change('notebooks/chapters.yml', '', f'{entry}code: [toy]}}\n')
    nb = new_notebook(cells=[kind(cell) for kind, cell in zip(kinds, cells)])
    copy.change('notebooks/10-toy.ipynb', '', writes(nb))
    first = '[Training on multiple GPUs from scratch](01-multiple-gpus-scratch.ipynb)'
    copy.change('notebooks/09-a-language-model.ipynb', first, '[A toy](10-toy.ipynb)')
    code = '"""Chapter 10: twice."""\n\n\ndef twice(x: int) -> int:\n'
    copy.change('mgpu_helpers/toy.py', '', f'{code}    """Double a number."""\n    return 2 * x\n')
    copy.change('mgpu_helpers/__init__.pyi', '', 'from . import toy as toy\n')
    row = '| [`scaling`](reference/scaling.rst) |'
    copy.change('book/reference.md', row, f'| [`toy`](reference/toy.rst) | chapter 10 |\n{row}')
    copy.change('exercises/teaching/plan.yml', '\nplans:', f'{PLAN}\nplans:')
    by_hand = copy.changed()
    names = listed('A chapter')
    names = {name.replace('NN-name', '10-toy').replace('name.py', 'toy.py') for name in names}
    assert by_hand == names | {'notebooks/09-a-language-model.ipynb'} and len(by_hand) <= 8

    copy.python('tools/chapters.py')
    copy.python('tools/teaching_plan.py', 'guide')
    copy.python('tools/run_notebooks.py', '--chapter', '10', '--store')
    tests = 'notebooks teaching house make'.split()
    nbval = '--nbval --nbval-sanitize-with tests/sanitize.cfg notebooks/10-toy.ipynb'.split()
    copy.python('-m', 'pytest', '-q', *nbval, *(f'tests/test_{name}.py' for name in tests))
    written = copy.changed() - by_hand
    assert {'README.md', 'book/index.md', 'exercises/teaching/guide.md'} < written
    rooms = {'README.md', 'book', 'exercises', 'notebooks'}
    assert {name.split('/')[0] for name in written} <= rooms


def test_an_allreduce_is_added_by_what_is_listed(copy):
    room = 'mgpu_helpers/collectives'
    code = (ROOT / room / 'algorithms.py').read_text(encoding='utf8')
    tree = code[code.index('def allreduce_tree') : code.index('def allreduce_butterfly')]
    toy = tree.replace('_tree', '_toy').strip()
    copy.change(f'{room}/algorithms.py', '', f'\n\n{toy}\n')
    cost = 'def toy(devices: int, nbytes: float, link: Wire) -> float:\n    """Cost the same."""\n'
    formula = f'{cost}    return tree(devices, nbytes, link)\n\n\n'
    copy.change(f'{room}/costs.py', 'class Algorithm', f'{formula}class Algorithm')
    entry = "    'toy': Algorithm(algorithms.allreduce_toy, toy, 'allreduce-toy.svg'),\n"
    copy.change(f'{room}/costs.py', "    'tree':", f"{entry}    'tree':")
    script = (ROOT / 'img/src/allreduce-tree.py').read_text(encoding='utf8')
    copy.change('img/src/allreduce-toy.py', '', script)
    shown = '](../img/allreduce-tree.svg)'
    chapter = 'notebooks/03-faster-allreduce.ipynb'
    copy.change(chapter, shown, f'{shown} ![A toy](../img/allreduce-toy.svg)')
    taught = [line for line in toy.splitlines() if '"""' not in line and 'arguments.' not in line]
    taught[0] = 'def allreduce_toy(data):'
    priced = ['def toy(devices, nbytes, link):', '    return tree(devices, nbytes, link)']
    seconds = '| toy | 2⌈log₂ *k*⌉ · (α + *n*/*B*) | as the tree |'
    prices = 'notebooks/08-what-would-it-cost.ipynb'
    for notebook, before, lines in (
        (chapter, 'def allreduce_tree(data):', [*taught, '']),
        (chapter, '| tree | 2 log₂ *k* | log₂ *k* |', ['| toy | 2 log₂ *k* | log₂ *k* |']),
        (prices, 'def tree(devices, nbytes, link):', [*priced, '']),
        (prices, '| tree | 2⌈log₂', [seconds]),
    ):
        written = [json.dumps(line + '\n', ensure_ascii=False) + ',\n    ' for line in lines]
        copy.change(notebook, f'"{before}', f'{"".join(written)}"{before}')
    by_hand = copy.changed()
    assert by_hand == {name.replace('NAME', 'toy') for name in listed('An allreduce')}

    copy.python('img/src/all.py', 'allreduce-toy')
    tests = [
        f'tests/test_{name}.py'
        for name in ('collectives', 'costs', 'formulas', 'notebooks', 'img', 'house')
    ]
    copy.python('-m', 'pytest', '-q', *tests, '-k', 'toy or nobody_calls or algorithm or saved')
    assert copy.changed() - by_hand == {'img/allreduce-toy.svg'}
