"""What is handed in to the grader's tests, and what is right of it; and a whole class of 40."""

import ast
import base64
import importlib
import itertools
import json
import re
import subprocess
import sys
import sysconfig
import textwrap
from dataclasses import dataclass
from pathlib import Path

import cloudpickle
import grade
import grading
import nbformat
import yaml

from mgpu_helpers.processes.launching import dumps
from student import CHECK, SOURCES

ROOT = Path(__file__).resolve().parent.parent
NUMBERS = {chapter: list(grade.checks_in(path)) for chapter, path in SOURCES.items()}
FIRST = SOURCES['1']
GIVEN = yaml.safe_load((ROOT / 'tests/submissions.yml').read_text('utf8'))
DUE = '2026-03-02 18:00'


def notebook(fill=None, first=None, without=(), chapter='1'):
    """Make a submission: solutions of all, or, with ``fill``, blanks and an answer to 1.1."""
    path = SOURCES[chapter]
    text = (path if fill is None else path.parent / 'student' / path.name).read_text('utf8')
    made = nbformat.reads(text.replace("'Ada Lovelace'", "'Ada'"), as_version=4)
    if fill is not None:
        cell = next(c for c in made.cells if c.source.startswith('def shard_sizes'))
        cell.source = re.sub(
            r' *raise NotImplementedError.*', lambda _: textwrap.indent(fill, '    '), cell.source
        )
    if first is not None:
        made.cells.insert(2, nbformat.v4.new_code_cell(first))
    made.cells = [c for c in made.cells if not any(c.source.startswith(w) for w in without)]
    return nbformat.writes(made)


ODD_NAMES = {  # they mean something to a shell, a page and a spreadsheet; the last is in Latin-1
    '=cmd()': ('', [], 'not a readable note'),
    """O'Neil, "Bo" & <b>Co""": ('', [], 'not a readable note'),
    'M\udcfcller': (notebook(first=r"raise ValueError('\ud800')"), NUMBERS['1'], 'ValueError'),
}


def to_chapter_1():
    """Give name -> (text, right ones, a part of the remarks), beside those of odd names."""
    solved = nbformat.reads(notebook(), as_version=4)
    checks = [cell for cell in solved.cells if cell.source.startswith('check(')]
    others = [cell for cell in solved.cells if not cell.source.startswith('check(')]
    all_of_it = NUMBERS['1']
    given = {
        'solved': (notebook(), all_of_it, ''),
        'blank': (notebook('raise NotImplementedError'), [], ''),
        'no checks': (notebook(without=['check(']), all_of_it, ''),
        'one deleted': (notebook(without=['def shard_sizes']), all_of_it[1:], ''),
        'no notebook': ('PK\x03\x04 not JSON', [], 'not a readable note'),
        'half': (notebook()[:5000], [], 'not a readable note'),
        'odd cells': (json.dumps({'cells': [1, {'cell_type': 'code'}]}), [], 'not a readable note'),
        'deep': ('[' * 10**6, [], 'not a readable note'),
        'large': (' ' * (grading.LARGEST + 1), [], 'too large'),
        'objects': (json.dumps(solved | {'metadata': {'x': [{}] * 10**6}}), all_of_it, ''),
        'marked': ('\ufeff' + notebook(), all_of_it, ''),  # as some editors begin a file
        'another order': (json.dumps(solved | {'cells': checks + others}), all_of_it, ''),
        'version 3': (nbformat.writes(nbformat.convert(solved, 3), version=3), all_of_it, ''),
    }
    for name, of in GIVEN['answers'].items():
        right = ['1.1'] if 'right' in of else []
        given[f'answer {name}'] = notebook(of['text']), right, of.get('remark', '')
    for name, first in GIVEN['cheats'].items():
        given[f'cheat {name}'] = notebook('return [n // k] * k', first), [], ''
    for name, of in GIVEN['forgeries'].items():
        given[f'forges: {name}'] = notebook(of['text'], of.get('first')), [], of.get('remark', '')
    for name, first in GIVEN['first'].items():
        given[name] = notebook(first=first), all_of_it, ''
    return given


def harmful():
    """Give name -> (a cell that harms, a part of the remarks); what comes after it counts."""
    return {name: (of['text'], of.get('remark', '')) for name, of in GIVEN['cells'].items()}


def answered(chapter, which, turn, first):
    """Give a notebook with known answers, RIGHT or WRONG, after a cell; and what is right of it.

    Of several to an exercise, the one whose turn it is. They travel as what was pickled.
    """
    module = importlib.import_module(f'misconceptions.chapter{chapter}')
    for name in [name for name in sys.modules if name.startswith('misconceptions.')]:
        cloudpickle.register_pickle_by_value(sys.modules[name])
    known = {}
    for number, _, answers, *_ in getattr(module, which):
        known.setdefault(number, []).append(answers if isinstance(answers, tuple) else (answers,))
    made, blank = nbformat.read(SOURCES[chapter], as_version=4), None
    for cell in made.cells:
        cell.source = cell.source.replace("'Ada Lovelace'", "'Ada'")  # as wrong numbers were drawn
        if 'solution' in cell.metadata.get('tags', ()):
            blank = cell
        elif (match := CHECK.match(cell.source)) and match[1] in known:
            several = known[match[1]]
            names = [ast.unparse(word) for word in ast.parse(cell.source).body[0].value.args[1:]]
            sent = base64.b64encode(dumps(several[turn % len(several)])).decode()
            blank.source = 'import base64, pickle\n'
            blank.source += f'{", ".join(names)}, = pickle.loads(base64.b64decode("{sent}"))'
    made.cells.insert(2, nbformat.v4.new_code_cell(first))
    right = [n for n in NUMBERS[chapter] if which == 'RIGHT' or n not in known]
    return nbformat.writes(made), right


@dataclass
class Handed:
    """A file that is handed in, ``hours`` before it was due; of two copies the last one counts."""

    path: str
    chapter: str
    text: str
    right: list[str]
    remark: str = ''
    hours: float = 1.0
    counts: bool = True


FORMS = {  # how a file is called, and a second one of the same student and chapter
    'canvas/{squeezed}{late}_{id}_9{id}_{stem}{copy}.ipynb': '-1',
    'moodle/{name}_7{id}_assignsubmission_file_/{stem}{copy}.ipynb': ' (1)',
    'flat/{name}_7{id}_assignsubmission_file_{stem}{copy}.ipynb': '-Copy1',
    'week 3/{name}/{stem}{copy}.ipynb': '_copy (2)',
}


def a_class():
    """Give a roster of 40, {id: name}, and what all of them but three hand in, by name.

    A notebook or two each: the ways to hand in chapter 1; in all chapters right answers of other
    idioms, or wrong ones, after a cell that does harm. Some have an earlier file, some are late.
    """
    firsts = 'Ada Grace Alan Bảo-Châu Zoë Ömer Edsger Barbara'.split()
    lasts = "Lovelace Hopper Turing Ngô O'Neil".split()
    names = [f'{first} {last}' for last in lasts for first in firsts]
    roster, class_ = {str(100 + i): name for i, name in enumerate(names)}, {}
    present = list(roster.items())[:-3]
    work = [('1', *of) for of in to_chapter_1().values()]
    chapters = [n for n in SOURCES if n.isdigit()]
    both = itertools.product([*chapters, *chapters[1:]], ('RIGHT', 'WRONG'))
    for turn, ((cell, remark), (chapter, which)) in enumerate(zip(harmful().values(), both)):
        work.append((chapter, *answered(chapter, which, turn, cell), remark))
    for i, (chapter, text, right, remark) in enumerate(work):
        id, name = present[i % len(present)]
        (form, copy), late = list(FORMS.items())[i % 4], i % 5 == 2
        squeezed = re.sub(r'\W', '', ''.join(name.lower().split()[::-1]))
        how = {'squeezed': squeezed, 'late': '_LATE' * late, 'id': id}
        how |= {'name': name, 'stem': SOURCES[chapter].stem}
        mine = class_.setdefault(name, [])
        hours = -5.0 if late else 1.0
        if i % 3 == 0:
            earlier = form.format(copy='', **how | {'late': ''})
            mine.append(Handed(earlier, chapter, '{}', [], '', 30.0, counts=False))
            remark = remark or 'is the last of several'
        path = form.format(copy=copy * (i % 3 == 0), **how)
        mine.append(Handed(path, chapter, text, right, remark, hours))
    for name, (text, right, remark) in ODD_NAMES.items():
        class_[name] = [Handed(f'{name}/{FIRST.name}', '1', text, right, remark)]
    return roster, class_


def two_environments(folder):
    """Lay out what setup makes where there are GPUs: ``.venv`` and ``.venv-torch``, by links.

    The first one has no PyTorch, the second no MXNet; the Python of the first is returned.
    """
    pythons = {}
    for name, without in (('.venv', 'torch'), ('.venv-torch', 'mxnet')):
        subprocess.run([sys.executable, '-m', 'venv', '--without-pip', folder / name], check=True)
        (site,) = folder.glob(f'{name}/lib/*/site-packages')
        for entry in Path(sysconfig.get_path('purelib')).iterdir():
            if not entry.name.startswith(without) and not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
        pythons[name] = folder / name / 'bin' / 'python'
    return pythons['.venv']
