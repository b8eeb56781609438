"""Find an exercise's check, run it on an answer, and say what came of it in one sentence."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Numbers = dict[str, Any] | None  # a student's own, of an exercise on paper


class Hint(Exception):
    """What is not right yet, and where to look."""


class Verdict(NamedTuple):
    """What came of a check; a notebook shows the sentence."""

    number: str
    right: bool
    sentence: str

    def __repr__(self) -> str:
        return f'{self.number}: {self.sentence}'


def expect(condition: object, hint: str) -> None:
    """Raise a hint unless a condition holds."""
    if not condition:
        raise Hint(hint)


def expect_value(
    found: Any, right: Any, case: str, mistakes: dict[str, Any], hint: str, tolerance: float = 1e-9
) -> None:
    """Raise a hint unless a number or array is right; ``mistakes`` are hints, and what leads there.

    A case may be formatted with what was found, ``'{} ms'``; ``hint`` is for all other values.
    """
    case = case.replace('{}', f'{found:.6g}' if isinstance(found, float) else str(found))
    expect(found is not None, f'{case}: give the result back with return')
    if not _close(found, right, tolerance):
        for known, wrong in mistakes.items():
            expect(not _close(found, wrong, tolerance), f'{case}: {known}')
        raise Hint(f'{case}: {hint}')


def _close(x: Any, y: Any, tolerance: float) -> bool:
    size = tolerance * np.max(np.abs(y))
    return np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=0, atol=size)


def check(number: str, *answers: Any, name: str = '', seed: int = 0) -> Verdict:
    """Check the answers to an exercise, ``check('1.7', my_allreduce)``: "right", or a hint.

    ``name`` is the student's where the numbers are drawn from it, as by ``given``; ``seed`` draws
    the arrays that a function is tried with.
    """
    exercise = find(number)
    drawn = numbers_of(number, name)
    wanted = list(inspect.signature(exercise).parameters)[2:]
    if len(answers) != len(wanted):
        raise TypeError(
            f"check('{number}', ...) takes {', '.join(wanted)}, not {len(answers)} answers"
        )
    for word, answer in zip(wanted, answers):
        if answer is ... or answer is None:
            return Verdict(number, False, f'{word} is still blank')
    try:
        exercise(random.Random(f'{number} {seed}'), drawn, *answers)
    except Hint as hint:
        return Verdict(number, False, f'not yet: {hint}')
    except NotImplementedError:
        return Verdict(number, False, f'{" or ".join(wanted)} is still blank')
    except Exception as error:  # whatever a student's function raises
        what = ' '.join(str(error).split())[:200]
        return Verdict(number, False, f'not yet: it raised {type(error).__name__}: {what}')
    return Verdict(number, True, 'right')


def given(number: str, name: str) -> dict[str, Any]:
    """Draw a student's own numbers for an exercise on paper; the same name gives the same ones."""
    drawn = numbers_of(number, name)
    if drawn is None:
        raise ValueError(f'exercise {number} has no numbers of its own: they stand in its text')
    return drawn


def numbers_of(number: str, name: str) -> Numbers:
    """Draw them, or None where an exercise has none."""
    draw: Callable[..., dict[str, Any]] | None = getattr(find(number), 'draw', None)
    return draw and draw(random.Random(f'{number} {name.strip().lower()}'))


def find(number: str) -> Callable[..., None]:
    """Give the check of an exercise: ``exercise_7`` of ``chapter1`` for '1.7'."""
    chapter, _, which = str(number).partition('.')
    try:
        module = importlib.import_module(f'.chapter{chapter}', __package__)
    except ModuleNotFoundError as error:
        if error.name != f'{__package__}.chapter{chapter}':
            raise
        raise ValueError(f"there are no exercises of chapter '{chapter}'") from None
    there = exercises_of(module)
    if which not in there:
        numbers = ', '.join(f'{chapter}.{n}' for n in there)
        raise ValueError(f"there is no exercise '{number}' to check; there are {numbers}")
    return there[which]


def exercises_of(module: ModuleType) -> dict[str, Callable[..., None]]:
    """Give a chapter's checks by the last part of their numbers, in that order."""
    numbers = [n.removeprefix('exercise_') for n in vars(module) if n.startswith('exercise_')]
    return {number: getattr(module, f'exercise_{number}') for number in sorted(numbers, key=int)}
