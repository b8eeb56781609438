"""Find submissions as learning management systems hand them over: which file is whose, and when.

A notebook counts where the name of a chapter's exercises stands anywhere in its own, or where it
begins with the chapter's number. What is left of the name, or else the folder, is the student:

    lovelaceada_LATE_12345_678_01-multiple-gpus-scratch-1.ipynb                 Canvas
    Ada Lovelace_12345_assignsubmission_file_/01-multiple-gpus-scratch.ipynb    Moodle, or flat
    ada/01-multiple-gpus-scratch (1).ipynb                                      folders
"""

import csv
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from student import set_of

CANVAS = re.compile(r'(?P<name>[^_]+)(?P<late>_LATE)?_(?P<id>\d+)_\d+')
MOODLE = re.compile(r'(?P<name>.+)_\d+_assignsubmission_file')
COPY = re.compile(r'^(?:[ _-]*(?:\(\d+\)|copy ?\d*|\d+))+$', re.IGNORECASE)  # "-Copy1", " (2)"
NOT_THEIRS = '.ipynb_checkpoints', '__MACOSX'


@dataclass
class Student:
    """A person: the number that Canvas or a roster has, and the name."""

    id: str
    name: str


@dataclass
class Submission:
    """One notebook of a student; ``late`` says by how much, where a date was set."""

    student: Student
    chapter: str
    path: Path
    late: str = ''
    others: tuple = ()  # names of earlier files of the same student and chapter


def words_in(name):
    """Split a name into words, in lower case: 'Lovelace, Ada' is lovelace and ada."""
    return re.findall(r'\w+', name.casefold().replace('_', ' '))


def same_person(one, other):
    """Say whether two names have the same words, in any order; Canvas leaves no spaces."""
    one, other = words_in(one), words_in(other)
    turned = [''.join(one[i:] + one[:i]) for i in range(len(one))]
    return sorted(one) == sorted(other) or ''.join(other) in turned


def read_roster(path):
    """Read ids and names from a CSV, by its headings if it has them, else its first columns."""
    with path.open(encoding='utf-8-sig', newline='') as file:
        rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    heads = [head.strip().casefold() for head in rows[0]] if rows else []
    if 'id' in heads and 'name' in heads:
        columns, rows = (heads.index('id'), heads.index('name')), rows[1:]
    else:
        columns = 0, 1
    if any(len(row) <= max(columns) for row in rows):
        raise ValueError(f"'{path}': each line needs an id and a name, such as 12345,Ada Lovelace")
    return [Student(*(row[column].strip() for column in columns)) for row in rows]


def chapter_of(path, sources):
    """Name the chapter of a file, and what its name has beside that; None, '' if there is none."""
    for chapter, source in sources.items():
        before, found, after = path.stem.partition(source.stem)
        if found:
            return chapter, before if COPY.match(after) else before + after
    chapter = set_of(path)
    if chapter in sources:
        return chapter, path.stem.partition('-')[2]
    return None, ''


def student_of(rest, above):
    """Give the student, by what else stands in a file's name or its folder; whose it is; if late.

    Moodle's numbers are others in each assignment: they tell two students of one name apart.
    """
    for text in (rest, above.name):
        if match := CANVAS.fullmatch(text.strip('_-. ')):
            return Student(match['id'], match['name']), match['id'], bool(match['late'])
        if match := MOODLE.fullmatch(text.strip('_-. ')):
            return Student('', match['name']), match[0], False
    name = rest.strip('_-. ') or above.as_posix()
    return Student('', name), name, False


def find(folder, sources, roster=(), due=None):
    """Return the submissions below a folder, the last of each student and chapter, and the rest."""
    found, skipped = {}, []
    for path in sorted(p for p in folder.rglob('*') if not p.is_dir() or p.suffix == '.ipynb'):
        parts = path.relative_to(folder).parts
        if any(part in NOT_THEIRS for part in parts) or path.name.startswith('.'):
            continue
        chapter, rest = chapter_of(path, sources) if path.suffix == '.ipynb' else (None, '')
        if chapter is None:
            skipped.append(path)
            continue
        student, whose, late = student_of(rest, path.parent.relative_to(folder))
        known = [s for s in roster if student.id and s.id == student.id]
        name = student.name.rpartition('/')[2]  # of a folder in another one
        known = known or [s for s in roster if same_person(s.name, name)]
        student = known[0] if len(known) == 1 else student
        when = path.lstat().st_mtime
        hours = (when - due.timestamp()) / 3600 if due else 0
        late = f'{hours:.1f} h' if hours > 0 else 'yes' if late else ''
        one = Submission(student, chapter, path, late)
        found.setdefault((whose, chapter), []).append((when, path.name, one))
    submissions = []
    for several in found.values():
        *others, (_, _, last) = sorted(several, key=lambda each: each[:2])
        last.others = tuple(name for _, name, _ in others)
        submissions.append(last)
    return submissions, skipped


def due_date(text):
    """Read a date and time of this machine's clock, such as 2026-12-01 18:00."""
    return datetime.fromisoformat(text) if text else None
