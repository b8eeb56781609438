"""The docstrings: short prose, no form to fill in; and every example in them runs."""

import ast
import doctest
import importlib
import importlib.util
import re
from pathlib import Path

import mxnet as mx

import mgpu_helpers

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted([*ROOT.glob('mgpu_helpers/**/*.py'), *ROOT.glob('exercises/mgpu_exercises/*.py')])
NO_TORCH = importlib.util.find_spec('torch') is None
MORE = 5  # lines of prose below the first one; a module or a room may explain itself at length
FORM = re.compile(
    r'^\s*((-{3,}|={3,}|~{3,})\s*$|:param|:return|\w[\w, ]* : \S'
    r'|(Parameters|Args|Arguments|Returns|Yields|Raises|Attributes|Notes|Examples):?\s*$)'
)


def documented(path):
    """Yield what a file defines, with its qualified name."""
    tree = ast.parse(path.read_text(encoding='utf8'))
    yield str(path.relative_to(ROOT)), tree
    waiting = [(f'{path.relative_to(ROOT)}:', tree)]
    while waiting:
        prefix, parent = waiting.pop()
        for node in parent.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                yield prefix + node.name, node
                if isinstance(node, ast.ClassDef):
                    waiting.append((f'{prefix}{node.name}.', node))


def faults(node, public):
    """Say what is wrong with one docstring."""
    text = ast.get_docstring(node)
    if text is None:
        return ['has none'] * public
    first, *rest = text.splitlines()
    prose = [line for line in text.partition('>>>')[0].splitlines()[1:] if line.strip()]
    wrong = []
    if not first.endswith(('.', ':', '?')):
        wrong.append('the first line is no sentence')
    if rest and rest[0]:
        wrong.append('no blank line below the first')
    if not isinstance(node, ast.Module) and len(prose) > MORE:
        wrong.append(f'{len(prose)} lines below the first')
    return wrong + [f'a form: {line.strip()}' for line in text.splitlines() if FORM.match(line)]


def test_docstrings_are_short_prose():
    wrong = []
    for path in FILES:
        for name, node in documented(path):
            last = name.rpartition(':')[2].rpartition('.')[2]
            protocol = isinstance(node, ast.FunctionDef) and last.startswith('__')
            public = not any(part.startswith('_') for part in name.rpartition(':')[2].split('.'))
            # Of a face or an empty __init__.py the file's name says enough.
            wrong += [f'{name}: {what}' for what in faults(node, public and not protocol)]
    assert not wrong


def test_examples_run(capsys, popened):
    """All in one process, and none starts another."""
    mgpu_helpers.devices(9)  # the notice is said now, not in the middle of an example
    tried = 0
    for path in FILES:
        name = '.'.join(path.relative_to(ROOT).with_suffix('').parts).removesuffix('.__init__')
        if '>>>' not in path.read_text(encoding='utf8') or NO_TORCH and '.pytorch' in name:
            continue
        module = importlib.import_module(name)
        capsys.readouterr()
        results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
        assert not results.failed, capsys.readouterr().out
        tried += results.attempted
    assert tried and not popened


def test_public_face_is_complete():
    for name in set(mgpu_helpers.__all__) - ({'pytorch'} if NO_TORCH else set()):
        assert getattr(mgpu_helpers, name) is not None
    assert mgpu_helpers.devices(1)[0].device_type in ('cpu', 'gpu')
    assert mgpu_helpers.try_gpu() in (mx.cpu(), mx.gpu())
