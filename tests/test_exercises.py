"""Exercises: solutions are right, blanks are told as such, and known mistakes get their hint."""

import ast
import contextlib
import importlib
import io
import re
from collections import Counter
from fractions import Fraction

import nbformat
import numpy as np
import pytest
import teaching_plan
from IPython.lib.pretty import pretty
from run_notebooks import frameworks

import student
from mgpu_exercises import check, checking, given

SLOW = tuple(f"check('{n}'" for n in ('5.3', '5.10', '6.2'))  # each starts processes: once


def code_of(text):
    return [c.source for c in nbformat.reads(text, as_version=4).cells if c.cell_type == 'code']


def needs(chapter):
    """Skip what asks for the framework of a chapter where it is not installed."""
    used = frameworks(nbformat.read(student.SOURCES[chapter], as_version=4))
    if 'torch' in used:
        pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")
    if 'mxnet' in used:
        pytest.importorskip('mxnet', reason='MXNet is not installed')


def run(cells, space):
    """Run cells as a notebook does; return each one's last value and what it printed."""
    outputs = []
    for cell in cells:
        *statements, last = ast.parse(cell).body
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if not isinstance(last, ast.Expr):
                exec(cell, space)
                value = None
            else:
                exec(compile(ast.Module(statements, []), 'a cell', 'exec'), space)
                value = eval(compile(ast.Expression(last.value), 'a cell', 'eval'), space)
        outputs.append((value, printed.getvalue()))
    return outputs


def module_of(chapter):
    return importlib.import_module(f'mgpu_exercises.{"chapter" * chapter.isdigit()}{chapter}')


@pytest.mark.parametrize('path', student.SOURCES.values(), ids=lambda path: path.name)
def test_solutions_are_right_as_stored_and_blanks_are_told_in_a_sentence(path):
    """The puzzles go through nbval, too, for their pictures; the others need no kernel each."""
    chapter = student.set_of(path)
    needs(chapter)
    nb, space = nbformat.read(path, as_version=4), {}
    cells = [cell for cell in nb.cells if cell.cell_type == 'code']
    ran = run([cell.source for cell in cells], space)
    for cell, (value, printed) in zip(cells, ran):
        shown = printed + ('' if value is None else pretty(value))
        stored = (out.get('text') or out['data']['text/plain'] for out in cell.outputs)
        assert shown == ''.join(stored), cell.source
    solved = [value for value, _ in ran if isinstance(value, checking.Verdict)]
    numbers = [f'{chapter}.{n}' for n in checking.exercises_of(module_of(chapter))]
    assert [verdict.number for verdict in solved] == numbers
    checks = [cell.source[:-1] for cell in cells if cell.source.startswith('check(')]
    checks = [f'{check}, seed=5)' for check in checks if not check.startswith(SLOW)]
    assert all(verdict.right for verdict, _ in run(checks, space))
    blank = [value for value, _ in run(code_of(student.student_version(path)), {})]
    blank = [value for value in blank if isinstance(value, checking.Verdict)]
    assert [
        *dict.fromkeys(verdict.number for verdict in blank)
    ] == numbers  # a picture says it, too
    for verdict in blank:
        assert not verdict.right and 'still blank' in verdict.sentence


@pytest.mark.parametrize('path', student.SOURCES.values(), ids=lambda path: path.name)
def test_the_students_version_is_what_the_sources_give(path):
    kept = (path.parent / 'student' / path.name).read_text(encoding='utf8')
    assert kept == student.student_version(path), 'make student writes it anew'
    assert 'SOLUTION' not in kept and "'right'" not in kept


@pytest.mark.parametrize('chapter', student.SOURCES)
def test_each_known_mistake_gets_its_hint(chapter):
    needs(chapter)
    wrong = teaching_plan.mistakes_in(chapter)
    for number, what, answers, hint in wrong:
        answers = answers if isinstance(answers, tuple) else (answers,)
        verdict = check(number, *answers, name='Ada')
        assert not verdict.right and hint in verdict.sentence, (what, verdict)
        assert verdict.sentence.count('\n') == 0 and len(verdict.sentence) < 400
    counted = Counter(number.split('.')[1] for number, *_ in wrong)
    assert set(counted) == set(checking.exercises_of(module_of(chapter)))
    assert min(counted.values()) >= 2


@pytest.mark.parametrize('chapter', student.SOURCES)
def test_right_answers_that_go_another_way_are_right(chapter):
    needs(chapter)
    name = module_of(chapter).__name__.replace('mgpu_exercises', 'misconceptions')
    right = importlib.import_module(name).RIGHT
    for number, what, answers in right:
        answers = answers if isinstance(answers, tuple) else (answers,)
        verdict = check(number, *answers, seed=1)
        assert verdict.right, (what, verdict)
    if chapter == 'puzzles':  # a schedule is right by its cost, whatever way it was written
        return
    counted = Counter(number.split('.')[1] for number, *_ in right)
    checks = checking.exercises_of(module_of(chapter))
    assert set(counted) == {n for n in checks if not hasattr(checks[n], 'draw')}  # not on paper
    assert min(counted.values()) >= 2


def test_what_gives_one_point_is_marked_as_a_warm_up():
    for chapter, path in student.SOURCES.items():
        opening = nbformat.read(path, as_version=4).cells[0].source
        marked = re.search(r'([\d., and]+) (?:is a|are) warm-ups?', opening)
        numbers = re.findall(r'\d+\.\d+', marked.group(1)) if marked else []
        one_point = [
            number
            for number, (points, _) in teaching_plan.POINTS.items()
            if points == 1 and number.split('.')[0] == chapter
        ]
        assert numbers == one_point, path.name


def test_what_is_raised_in_an_answer_is_told_and_what_cannot_be_checked_refused():
    needs('1')
    told = check('1.1', lambda n, k: [n / 0])
    assert (
        repr(told) == '1.1: not yet: your function(6, 2) raised ZeroDivisionError: division by zero'
    )
    assert not told.right and 'still blank' in check('1.6', 1.0, ..., None).sentence
    for number, answers, words in (
        ('1.99', [1], "there is no exercise '1.99' to check; the exercises are 1.1"),
        ('77.1', [1], "no exercises for chapter '77'"),
    ):
        with pytest.raises(ValueError, match=words):
            check(number, *answers)
    with pytest.raises(TypeError, match='takes megabytes, messages, milliseconds, not 1 answers'):
        check('1.6', 5)
    with pytest.raises(ValueError, match='no personal numbers'):
        given('1.1', 'Ada')
    assert given('1.6', 'Ada ') == given('1.6', 'ada')
    assert len({str(given('1.6', f'student {i}')) for i in range(40)}) > 5


def test_a_right_number_of_another_type_is_right_and_what_is_no_number_is_told():
    needs('1')

    def whole_mean(means, sizes):
        return sum(mean * size for mean, size in zip(means, sizes)) / sum(sizes)

    for kind in (np.float32, np.array, Fraction, lambda x: np.array([x])):
        assert check('1.5', lambda *given, kind=kind: kind(whole_mean(*given))).right
    for strange in ('0.5', [0.5], {}, print, 10**400):
        verdict = check('1.5', lambda *given, strange=strange: strange)
        assert not verdict.right and len(verdict.sentence) < 400
        assert 'is not a number' in verdict.sentence or 'cannot be used' in verdict.sentence
