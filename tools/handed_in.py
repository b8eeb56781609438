"""Find submissions as learning management systems export them: each file's student and date.

A notebook counts if its name contains the name of a chapter's exercises or begins with the
chapter's number. The rest of the name, or else the folder, is the student:

    lovelaceada_LATE_12345_678_01-multiple-gpus-scratch-1.ipynb                 Canvas
    Ada Lovelace_12345_assignsubmission_file_/01-multiple-gpus-scratch.ipynb    Moodle, or flat
    ada/01-multiple-gpus-scratch (1).ipynb                                      folders
"""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

import click

from student import SOURCES, set_of

CANVAS = re.compile(r'(?P<name>[^_]+)(?P<late>_LATE)?_(?P<id>\d+)_\d+')
MOODLE = re.compile(r'(?P<name>.+)_\d+_assignsubmission_file')
COPY = re.compile(r'^(?:[ _-]*(?:\(\d+\)|copy ?\d*|\d+))+$', re.IGNORECASE)  # "-Copy1", " (2)"
NOT_THEIRS = '.ipynb_checkpoints', '__MACOSX'


@dataclass
class Student:
    """A student: the id from Canvas or a roster, and the name."""

    id: str
    name: str


@dataclass
class Submission:
    """One notebook of a student; ``late`` says by how much, if there is a due date."""

    student: Student
    chapter: str
    path: Path
    late: str = ''
    counts: float = 1.0  # the share of its points: one half if up to a day late, then none
    others: tuple = ()  # names of earlier files of the same student and chapter


def words_in(name):
    """Split a name into lower-case words: 'Lovelace, Ada' becomes lovelace and ada."""
    return re.findall(r'\w+', name.casefold().replace('_', ' '))


def same_person(one, other):
    """Return whether two names have the same words in any order; Canvas removes the spaces."""
    one, other = words_in(one), words_in(other)
    turned = [''.join(one[i:] + one[:i]) for i in range(len(one))]
    return sorted(one) == sorted(other) or ''.join(other) in turned


# The headings of Canvas, of Moodle, and of your own table.
IDS = 'id', 'id number', 'username', 'email address'
NAMES = 'name', 'student', 'first name', 'surname', 'last name'


def read_roster(path):
    """Read ids and names from a CSV file, by its headings or else from its first columns."""
    with path.open(encoding='utf-8-sig', newline='') as file:
        rows = [row for row in csv.reader(file) if any(cell.strip() for cell in row)]
    heads = [head.strip().casefold() for head in rows[0]] if rows else []
    ids, names = ([heads.index(head) for head in of if head in heads] for of in (IDS, NAMES))
    if ids and names:
        rows = rows[1:]
    else:
        ids, names = [0], [1]
    if any(len(row) <= max(ids + names) for row in rows):
        raise click.ClickException(f"'{path}': each line needs an id and a name: 345,Ada Lovelace")
    students = [
        Student(next((row[i].strip() for i in ids if row[i].strip()), ''),
                ' '.join(row[i].strip() for i in names))
        for row in rows
    ]  # fmt: skip
    return [s for s in students if s.name.casefold() not in ('points possible', 'student, test')]


def chapter_of(path):
    """Return a file's chapter and the rest of its name, or (None, '') if it has no chapter."""
    for chapter, source in SOURCES.items():
        before, found, after = path.stem.partition(source.stem)
        if found:
            return chapter, before if COPY.match(after) else before + after
    chapter = set_of(path)
    if chapter in SOURCES:
        return chapter, path.stem.partition('-')[2]
    return None, ''


def student_of(rest, above):
    """Return the student, from the rest of a file's name or its folder; a key; whether it is late.

    The key separates students of the same name; Moodle's numbers differ in each assignment.
    """
    for text in (rest, above.name):
        if match := CANVAS.fullmatch(text.strip('_-. ')):
            return Student(match['id'], match['name']), match['id'], bool(match['late'])
        if match := MOODLE.fullmatch(text.strip('_-. ')):
            return Student('', match['name']), match[0], False
    name = rest.strip('_-. ') or above.as_posix()
    return Student('', name), name, False


def find(folder, roster=(), due=None):
    """Return the last submission of each student and chapter in a folder, and all other files.

    Each of the other files is a pair: its path, and its student if the name tells.
    """
    found, skipped = {}, []
    for path in sorted(p for p in folder.rglob('*') if not p.is_dir() or p.suffix == '.ipynb'):
        parts = path.relative_to(folder).parts
        if any(part in NOT_THEIRS for part in parts) or path.name.startswith('.'):
            continue
        chapter, rest = chapter_of(path) if path.suffix == '.ipynb' else (None, '')
        above = path.parent.relative_to(folder)
        if chapter is None:  # the beginning of the name, or the folder, may name the student
            match = CANVAS.match(path.stem) or MOODLE.match(path.stem)
            rest = match[0] if match else ''
        student, whose, late = student_of(rest, above)
        known = [s for s in roster if student.id and s.id == student.id]
        name = student.name.rpartition('/')[2]  # the innermost folder
        known = known or [s for s in roster if same_person(s.name, name)]
        student = known[0] if len(known) == 1 else student
        if chapter is None:
            skipped.append((path, student if known or name != '.' else None))
            continue
        when = path.lstat().st_mtime
        hours = (when - due.timestamp()) / 3600 if due else 0
        counts = 1.0 if hours <= 0 else 0.5 if hours <= 24 else 0.0  # as in the syllabus
        late = f'{hours:.1f} h' if hours > 0 else 'yes' if late else ''
        one = Submission(student, chapter, path, late, counts)
        found.setdefault((whose, chapter), []).append((when, path.name, one))
    submissions = []
    for several in found.values():
        *others, (_, _, last) = sorted(several, key=lambda each: each[:2])
        last.others = tuple(name for _, name, _ in others)
        submissions.append(last)
    return submissions, skipped
