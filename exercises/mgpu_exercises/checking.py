"""Find an exercise's check, run it on an answer, and report the result in one sentence."""

import contextlib
import copy
import functools
import importlib.util
import inspect
import random
import reprlib
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

Numbers = dict[str, Any]  # the numbers drawn for a student


class Hint(Exception):
    """A sentence that says what is not right yet, and where to look."""


class Lacks(Hint, AttributeError):
    """Raised when an object passed to an answer lacks an attribute of this name."""


class WaitsForEver(Hint):
    """Raised where ranks would wait forever for another rank."""


class Away:
    """How to call answers that run in another process, as during grading."""

    run: Callable[..., Any] | None = None  # calls one of our functions there
    within: list[tuple[Any, tuple[Any, ...]]] = []  # contexts to enter there


def there(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make one of our functions run in the process that runs the answers, and return its data."""

    @functools.wraps(function)
    def run(*args: Any, **options: Any) -> Any:
        return (Away.run or function)(*([run] if Away.run else []), *args, **options)

    return run


def around(manager: Callable[..., Any]) -> Callable[..., Any]:
    """Make a context manager that is also entered in the process that runs the answers."""

    @functools.wraps(manager)
    @contextlib.contextmanager
    def both(*args: Any) -> Iterator[None]:
        Away.within.append((both, args))
        try:
            with contextlib.contextmanager(manager)(*args):
                yield
        finally:
            Away.within.pop()

    return both


class Noted:
    """A student's function that records its last call, and whether it ever returned a value.

    ``gives`` is false if the function changes its arguments and need not return anything. Its
    repr shows the last call in Python syntax, with arrays replaced by their shapes.
    """

    def __init__(self, function: Callable[..., Any], gives: bool) -> None:
        functools.update_wrapper(self, function)
        self.function, self.gives, self.gave = function, gives, set[bool]()
        self.args: tuple[Any, ...] = ()
        self.within = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.args, self.within = args, True
        found = self.function(*args, **kwargs)
        self.within = False
        self.gave.add(found is not None)
        return found

    def __reduce__(self) -> Any:
        return copy.copy, (self.function,)  # other processes get the function alone

    def __repr__(self) -> str:
        name = getattr(self.function, '__name__', '<').split('<')[0] or 'your function'
        return f'{name}({", ".join(map(_shown, self.args))})'


class Verdict(NamedTuple):
    """The result of a check; a notebook shows the sentence."""

    number: str
    right: bool
    sentence: str

    def __repr__(self) -> str:
        return f'{self.number}: {self.sentence}'


def expect(condition: object, hint: str, case: str = '') -> None:
    """Raise a hint unless a condition holds; ``case`` says what was tried, with the result."""
    if not condition:
        raise Hint(f'{case}: {hint}' if case else hint)


def expect_value(
    found: Any, right: Any, case: str, mistakes: dict[str, Any], hint: str, tolerance: float = 1e-9
) -> None:
    """Raise a hint unless a number or array is right; ``mistakes`` maps hints to wrong values.

    ``case`` may have a placeholder for the value, ``'{} ms'``; ``hint`` is for any other value.
    """
    expect(found is not None, f'{case.replace("{}", "None")}: return the result')
    found = number(found) if np.ndim(right) == 0 else found
    case = case.replace('{}', f'{found:.6g}' if isinstance(found, float) else str(found))
    if not _close(found, right, tolerance):
        for known, wrong in mistakes.items():
            expect(not _close(found, wrong, tolerance), f'{case}: {known}')
        raise Hint(f'{case}: {hint}')


def number(found: Any) -> float:
    """Convert a student's answer to a number; an array of one value is accepted, too."""
    try:
        found = found.asscalar() if hasattr(found, 'asscalar') else found
        return found if isinstance(found, int) else float(found + 0)  # text raises here
    except Exception:
        raise Hint(f'{_shown(found)} is not a number') from None


class _Shown(reprlib.Repr):
    """Shorten the arguments of a call; arrays and tensors are shown by their shapes."""

    def repr_instance(self, x: Any, level: int) -> str:
        name = type(x).__name__
        if hasattr(x, 'shape'):
            return f'{name} {tuple(x.shape)}'
        shown = ' '.join(super().repr_instance(x, level).split())
        return name if shown.startswith('<') else shown


_shown = _Shown().repr


def _close(x: Any, y: Any, tolerance: float) -> bool:
    size = tolerance * np.max(np.abs(y))
    return np.shape(x) == np.shape(y) and np.allclose(x, y, rtol=0, atol=size)


def on_paper(draw: Any = None, **choices: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Give an exercise numbers drawn for each student, by ``draw(rng)`` or from ``choices``."""

    def mark(exercise: Any) -> Any:
        exercise.draw = draw or (lambda rng: {k: rng.choice(these) for k, these in choices.items()})
        return exercise

    return mark


def check(number: str, *answers: Any, name: str = '', seed: int = 0, quote: bool = True) -> Verdict:
    """Check the answers to an exercise, ``check('1.7', my_allreduce)``; say "right" or give a hint.

    ``name`` is the student's, if the numbers are drawn from it, as by ``given``; ``seed`` draws
    the arrays that a function is tried with. If ``quote``, a hint may quote an error's message.
    """
    exercise = find(number)
    drawn = given(number, name) if hasattr(exercise, 'draw') else {}
    ours = {'rng': random.Random(f'{number} {seed}'), 'numbers': drawn}
    parameters = inspect.signature(exercise).parameters
    wanted = {name: str(p.annotation) for name, p in parameters.items() if name not in ours}
    if len(answers) != len(wanted):
        raise TypeError(
            f"check('{number}', ...) takes {', '.join(wanted)}, not {len(answers)} answers"
        )
    tried: dict[str, Any] = dict(zip(wanted, answers))
    for (word, kind), answer in zip(wanted.items(), answers):
        if answer is ... or answer is None:
            return Verdict(number, False, f'{word} is still blank')
        if 'Callable' in kind:
            if not callable(answer):
                hint = f'not yet: pass the function itself, {word}, without calling it'
                return Verdict(number, False, hint)
            tried[word] = Noted(answer, gives='None]' not in kind)
    try:
        exercise(**{name: (ours | tried)[name] for name in parameters})
    except NotImplementedError as error:
        blank = traceback.extract_tb(error.__traceback__)[-1].name  # maybe an earlier exercise
        return Verdict(number, False, f'{blank} is still blank')
    except Exception as error:  # a hint, or an error from a student's function
        noted = [answer for answer in tried.values() if isinstance(answer, Noted)]
        return Verdict(number, False, f'not yet: {_told(error, noted, quote)}'[:399])
    return Verdict(number, True, 'right')


def _told(error: Exception, noted: list[Noted], quote: bool) -> str:
    if not isinstance(error, WaitsForEver):
        for function in noted:
            if function.gives and function.gave == {False}:
                return f'{function} returned None: is `return` missing?'
    if isinstance(error, Hint):
        return str(error)
    what = type(error).__name__ + (f': {_plain(error)[:200]}' if quote else '')
    for function in noted:
        if function.within:
            return f'{function} raised {what}'
    return f'the result of {noted[-1]} cannot be used: {what}' if noted else f'it raised {what}'


def _plain(error: Exception) -> str:
    """Return the message of an error in one line; drop the source location from MXNet's errors."""
    said = ' '.join(str(error).split())
    if type(error).__name__ != 'MXNetError':
        return said
    if 'Incompatible attr' in said:
        return 'arrays of two types; nd.zeros and nd.empty make float32 without dtype=x.dtype'
    if 'inferring shapes failed. input shapes: [-1' in said:
        return 'a slice is empty: in X[a:b], a must be less than b and len(X)'
    return said.rpartition('MXNetError: ')[2]


def given(number: str, name: str) -> dict[str, Any]:
    """Draw a student's numbers for an exercise on paper; the same name draws the same numbers."""
    draw: Callable[..., dict[str, Any]] | None = getattr(find(number), 'draw', None)
    if draw is None:
        raise ValueError(f'exercise {number} has no personal numbers: use those in its text')
    return draw(random.Random(f'{number} {name.strip().lower()}'))


def find(number: str) -> Callable[..., None]:
    """Return the check of an exercise: ``exercise_7`` of ``chapter1`` for '1.7'; or 'puzzles.2'."""
    chapter, _, which = str(number).partition('.')
    module = f'.chapter{chapter}' if chapter.isdigit() else '.puzzles'
    if chapter not in module or importlib.util.find_spec(module, __package__) is None:
        raise ValueError(f"there are no exercises for chapter '{chapter}'")
    there = exercises_of(importlib.import_module(module, __package__))
    if which not in there:
        numbers = ', '.join(f'{chapter}.{n}' for n in there)
        raise ValueError(f"there is no exercise '{number}' to check; the exercises are {numbers}")
    return there[which]


def exercises_of(module: ModuleType) -> dict[str, Callable[..., None]]:
    """Return a chapter's checks by exercise number, in order."""
    numbers = [n.removeprefix('exercise_') for n in vars(module) if n.startswith('exercise_')]
    return {number: getattr(module, f'exercise_{number}') for number in sorted(numbers, key=int)}
