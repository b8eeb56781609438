"""Write the students' version of the exercises: blanks instead of solutions, and no outputs.

``make student`` calls this. ``exercises/student/`` is under version control, and a test checks
that it is what this script writes.
"""

import re
import sys
from pathlib import Path

import nbformat

from mgpu_helpers.processes.pythons import python_with

ROOT = Path(__file__).resolve().parent.parent
CHECK = re.compile(r"^check\('(\w+\.\d+)'", re.MULTILINE)
SOLUTION = re.compile(r'^( *)### BEGIN SOLUTION\n(.*?)^ *### END SOLUTION\n?', re.M | re.S)


def set_of(path):
    """Return the name of a file's set of exercises: '1' for 01-….ipynb, or 'puzzles'."""
    return path.stem.split('-')[0].lstrip('0')


SOURCES = {set_of(path): path for path in sorted((ROOT / 'exercises').glob('*.ipynb'))}


def python_of(path):
    """Return the Python that runs a file's cells: a GPU server has one of its own for PyTorch."""
    kernel = nbformat.read(path, as_version=4).metadata.kernelspec.name
    return (kernel == 'mgpu-torch' and python_with('torch')) or sys.executable


def blank(match):
    """Return the blank for a solution: ``raise NotImplementedError`` or ``name = ...``."""
    indent, solution = match.groups()
    if indent:
        return f'{indent}raise NotImplementedError  # your lines instead of this one\n'
    names = re.findall(r'^(\w+) = ', solution, re.MULTILINE)
    return ''.join(f'{name} = ...  # your answer\n' for name in names)


def student_version(path):
    """Return the text of the students' version of one notebook."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == 'code':
            cell.outputs, cell.execution_count = [], None
        else:  # student/ is one level deeper
            cell.source = cell.source.replace('](../', '](../../')
        if 'solution' in cell.metadata.get('tags', []):
            cell.source = SOLUTION.sub(blank, cell.source).rstrip()
            cell.metadata.pop('tags')
    return nbformat.writes(notebook, indent=1, ensure_ascii=False) + '\n'


def main():
    for path in SOURCES.values():
        target = path.parent / 'student' / path.name
        target.write_text(student_version(path), encoding='utf8')
        print(target.relative_to(ROOT))


if __name__ == '__main__':
    main()
