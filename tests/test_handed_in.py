"""What learning management systems hand over: whose each file is, and one row for everybody."""

import csv
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import click
import handed_in
import pytest
from classroom import two_environments
from handed_in import Student

from student import SOURCES

ROOT = Path(__file__).resolve().parent.parent
ONE, FIVE = '01-multiple-gpus-scratch', '05-multiple-gpus-pytorch'
ROSTER = [Student('12345', 'Ada Lovelace'), Student('77', 'Ngô Bảo Châu'), Student('78', 'Absent')]


@pytest.mark.parametrize(
    'path, id, name, chapter, late',
    [
        (f'lovelaceada_12345_678_{ONE}.ipynb', '12345', 'lovelaceada', '1', ''),
        (f'lovelaceada_LATE_12345_678_{ONE}.ipynb', '12345', 'lovelaceada', '1', 'yes'),
        (f'lovelaceada_12345_678_{ONE}-1.ipynb', '12345', 'lovelaceada', '1', ''),
        (f'Ada Lovelace_99_assignsubmission_file_/{FIVE}.ipynb', '', 'Ada Lovelace', '5', ''),
        (f'Ada Lovelace_99_assignsubmission_file_{FIVE}.ipynb', '', 'Ada Lovelace', '5', ''),
        (f'Ada Lovelace_99_assignsubmission_file_/ada {ONE}.ipynb', '', 'Ada Lovelace', '1', ''),
        (f'ada/{ONE}.ipynb', '', 'ada', '1', ''),
        (f'ada/{ONE} (1).ipynb', '', 'ada', '1', ''),
        (f'ada/{ONE}-Copy1.ipynb', '', 'ada', '1', ''),
        (f'ada/{ONE}_copy (2).ipynb', '', 'ada', '1', ''),
        (f'group 3/ada/{ONE}.ipynb', '', 'group 3/ada', '1', ''),
        (f'ada-{ONE}.ipynb', '', 'ada', '1', ''),
        (f'{ONE}-ada.ipynb', '', 'ada', '1', ''),
        ('01-ada.ipynb', '', 'ada', '1', ''),
        ('ada/puzzles.ipynb', '', 'ada', 'puzzles', ''),
    ],
)
def test_whose_a_file_is(tmp_path, path, id, name, chapter, late):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    ((one,), skipped) = handed_in.find(tmp_path)
    assert (one.student, one.chapter, one.late) == (Student(id, name), chapter, late)
    assert not skipped


def test_the_last_of_several_counts_and_what_is_left_out_is_listed(tmp_path):
    names = [f'{ONE}.ipynb', f'{ONE} (1).ipynb', f'{ONE}-Copy1.ipynb', 'notes.ipynb', 'a.zip']
    for when, name in enumerate([*names, '.ipynb_checkpoints/x.ipynb', '__MACOSX/._x.ipynb']):
        (tmp_path / 'ada' / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / 'ada' / name).touch()
        os.utime(tmp_path / 'ada' / name, (10**9 + 1000 * when, 10**9 + 1000 * when))
    due = datetime.fromtimestamp(10**9 + 200)
    ((one,), skipped) = handed_in.find(tmp_path, due=due)
    assert one.path.name == f'{ONE}-Copy1.ipynb' and one.late == '0.5 h'
    assert [*one.others] == names[:2]
    assert sorted((p.name, whose.name) for p, whose in skipped) == [
        ('a.zip', 'ada'),
        ('notes.ipynb', 'ada'),
    ]


def test_two_of_one_name_stay_two(tmp_path):
    for number in (7, 8):
        folder = tmp_path / f'Anna Schmidt_{number}_assignsubmission_file_'
        folder.mkdir()
        (folder / f'{ONE}.ipynb').touch()
    assert len(handed_in.find(tmp_path)[0]) == 2


@pytest.mark.parametrize(
    'text',
    [
        '12345,Ada Lovelace\n77,Ngô Bảo Châu\n78,Absent\n',
        'Student,ID,SIS Login ID,Section\n    Points Possible,,,\n"Lovelace, Ada",12345,ada,a\n'
        'Ngô Bảo Châu,77,chau,a\nAbsent,78,x,a\n',
        'First name,Surname,ID number\nAda,Lovelace,12345\nNgô Bảo,Châu,77\n,Absent,78\n',
        '\ufeffName,Section,ID\nAda Lovelace,a,12345\nNgô Bảo Châu,a,77\nAbsent,b,78\n\n',
    ],
)
def test_a_roster_is_read_with_headings_or_without(tmp_path, text):
    (tmp_path / 'roster.csv').write_text(text, encoding='utf8')
    for read, right in zip(handed_in.read_roster(tmp_path / 'roster.csv'), ROSTER, strict=True):
        assert read.id == right.id and handed_in.same_person(read.name, right.name)
    (tmp_path / 'roster.csv').write_text('only one column\n', encoding='utf8')
    with pytest.raises(click.ClickException, match='an id and a name'):
        handed_in.read_roster(tmp_path / 'roster.csv')


@pytest.mark.parametrize(
    'path, id',
    [
        (f'lovelaceada_5_678_{ONE}.ipynb', '12345'),  # another course's id, the same name
        (f'x_12345_678_{ONE}.ipynb', '12345'),
        (f'Lovelace Ada_9_assignsubmission_file_/{ONE}.ipynb', '12345'),
        (f'ngôbảochâu_9_678_{ONE}.ipynb', '77'),
        (f'week 3/Ada Lovelace/{ONE}.ipynb', '12345'),
        (f'somebody/{ONE}.ipynb', ''),
    ],
)
def test_the_roster_says_who_it_is(tmp_path, path, id):
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    ((one,), _) = handed_in.find(tmp_path, ROSTER)
    assert one.student.id == id


def run(folder, *options, python=sys.executable):
    command = [python, ROOT / 'tools/grade.py', folder / 'in', '--build', folder / 'out']
    return subprocess.run([*command, *options], capture_output=True, text=True)


def hand_in(folder, chapter, path, text=None):
    target = folder / 'in' / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text or SOURCES[chapter].read_text(encoding='utf8'), encoding='utf8')


@pytest.mark.slow  # a class of seven, 35 s
def test_a_class_has_a_row_each_with_what_was_set(tmp_path):
    """Two frameworks, three forms, somebody absent, somebody's friend's numbers."""
    pytest.importorskip('mxnet', reason='MXNet is not installed')
    pytest.importorskip('torch', reason='PyTorch is not installed')
    text = SOURCES['1'].read_text(encoding='utf8')
    hand_in(
        tmp_path,
        '1',
        f'lovelaceada_12345_678_{ONE}.ipynb',
        text.replace('Ada Lovelace', 'C. Babbage'),
    )
    hand_in(tmp_path, '5', f'Ngô Bảo Châu_9_assignsubmission_file_/{FIVE}.ipynb')
    hand_in(tmp_path, '1', 'Ngô Bảo Châu_9_assignsubmission_file_/notes.ipynb')
    roster = tmp_path / 'roster.csv'
    roster.write_text(''.join(f'{s.id},{s.name}\n' for s in ROSTER), encoding='utf8')
    chosen = '1.1 1.6 5.1'
    done = run(tmp_path, '--roster', roster, '--set', chosen, '--due', '2020-01-01', '--week', '3')
    assert done.returncode == 0, done.stderr
    assert 'not graded, its name has no chapter: Ngô' in done.stdout
    with (tmp_path / 'out/week-3/grades.csv').open(encoding='utf8', newline='') as file:
        ada, chau, absent = csv.DictReader(file)
    assert [ada[n] for n in chosen.split()] == ['1', ada['1.6'], ''] and int(ada['1.6']) > 0
    assert "drawn for 'C. Babbage'" in ada['remarks'] and ada['late'].startswith('chapter 1: ')
    assert chau['1.1'] == '' and int(chau['5.1']) > 0 == int(chau['points']), (
        'late by more than a day'
    )
    assert 'notes.ipynb' in chau['remarks'] and 'counts for nothing' in chau['late']
    assert absent['points'] == '0' and absent['files'] == ''
    assert (tmp_path / 'out/weeks.csv').read_text().startswith('id,name,week-3,points,out_of')
    page = tmp_path / 'out/week-3/feedback' / f'lovelaceada_12345_678_{ONE}.html'
    assert 'of' in page.read_text(encoding='utf8')


def test_a_framework_that_is_not_there_is_told_at_once(tmp_path):
    """Chapter 5, by an environment without PyTorch, and none beside it."""
    hand_in(tmp_path, '5', f'ada/{FIVE}.ipynb')
    python = two_environments(tmp_path)
    shutil.rmtree(tmp_path / '.venv-torch')
    done = run(tmp_path, python=python)
    assert done.returncode == 1 and f'{python} cannot check chapter 5' in done.stderr
    assert 'make setup TORCH=1' in done.stderr
