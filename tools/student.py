"""Write the students' version of the exercises: blanks for solutions, and no outputs.

``make student`` calls this. ``exercises/student/`` is under version control, and a test holds it
equal to what this script writes.
"""

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / 'exercises').glob('*.ipynb'))
CHECK = re.compile(r"^check\('(\w+\.\d+)'", re.MULTILINE)
SOLUTION = re.compile(r'^( *)### BEGIN SOLUTION\n(.*?)^ *### END SOLUTION\n?', re.M | re.S)


def set_of(path):
    """Name the set of exercises in a file: '1' for 01-….ipynb, or 'puzzles'."""
    return path.stem.split('-')[0].lstrip('0')


def blank(match):
    """Blank a solution: ``raise NotImplementedError`` in a function, else ``name = ...``."""
    indent, solution = match.groups()
    if indent:
        return f'{indent}raise NotImplementedError  # your lines instead of this one\n'
    names = re.findall(r'^(\w+) = ', solution, re.MULTILINE)
    return ''.join(f'{name} = ...  # your answer\n' for name in names)


def student_version(path):
    """Return the text of the students' notebook for one source."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == 'code':
            cell.outputs, cell.execution_count = [], None
        else:  # student/ is one folder below
            cell.source = cell.source.replace('](../', '](../../')
        if 'solution' in cell.metadata.get('tags', []):
            cell.source = SOLUTION.sub(blank, cell.source).rstrip()
            cell.metadata.pop('tags')
    return nbformat.writes(notebook, indent=1, ensure_ascii=False) + '\n'


def main():
    for path in SOURCES:
        target = path.parent / 'student' / path.name
        target.write_text(student_version(path), encoding='utf8')
        print(target.relative_to(ROOT))


if __name__ == '__main__':
    main()
