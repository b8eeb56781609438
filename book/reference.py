"""Write the package's reference from its source: no import, so no framework is needed."""

import ast
import re
import textwrap
from pathlib import Path

PAGE = Path(__file__).with_name('reference.md')
ROOMS = re.findall(r'\(reference/(\w+)\.rst\)', PAGE.read_text('utf8'))  # listed in PAGE


def public(package, room):
    """Yield the public definitions of a room: those in its stub, or else all in its file."""
    path, stub = package / f'{room}.py', package / room / '__init__.pyi'
    trees = {}
    if not stub.exists():
        files = [(path, None)] if path.exists() else []
    else:
        listed = [n for n in ast.parse(stub.read_text('utf8')).body if getattr(n, 'module', '')]
        files = [(package / room / f'{n.module}.py', n.names[0].name) for n in listed]
    for file, wanted in files:
        tree = trees.setdefault(file, ast.parse(file.read_text('utf8')) if file.exists() else None)
        for node in tree.body if tree else ():
            known = isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
            if known and not node.name.startswith('_') and wanted in (None, node.name):
                yield node


def signature(node):
    """Format the signature of a function or a class; for a dataclass, its fields."""
    if isinstance(node, ast.FunctionDef):
        args = node.args
        for first in ('self', 'cls'):
            args.args = [a for a in args.args if a.arg != first]
        return f'({ast.unparse(args)})' + (
            f' -> {ast.unparse(node.returns)}' if node.returns else ''
        )
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == '__init__':
            part.returns = None
            return signature(part)
    fields = [ast.unparse(part) for part in node.body if isinstance(part, ast.AnnAssign)]
    fields = [field for field in fields if 'ClassVar' not in field]
    return f'({", ".join(fields)})' if 'dataclass' in ast.dump(node)[-4000:] else ''


def describe(kind, name, node, indent=''):
    """Yield the lines of one entry and of its methods."""
    yield f'{indent}.. py:{kind}:: {name}{signature(node) if kind != "property" else ""}\n'
    yield textwrap.indent(ast.get_docstring(node) or '', f'{indent}   ') + '\n'
    for part in node.body if kind == 'class' else ():
        if isinstance(part, ast.FunctionDef) and part.name[0] != '_' and ast.get_docstring(part):
            marks = [ast.unparse(mark).split('.')[-1] for mark in part.decorator_list]
            kind_of = 'property' if {'property', 'cached_property'} & {*marks} else 'method'
            yield from describe(kind_of, part.name, part, f'{indent}   ')


def write(source):
    """Write a page for each room into the folder that Sphinx reads."""
    package, folder = source / 'mgpu_helpers', source / 'reference'
    folder.mkdir(exist_ok=True)
    for room in ROOMS:
        file = package / f'{room}.py'
        file = file if file.exists() else package / room / '__init__.py'
        title = f'mgpu_helpers.{room}'
        lines = [title, '=' * len(title), '', ast.get_docstring(ast.parse(file.read_text('utf8')))]
        lines += ['', f'.. py:currentmodule:: {title}', '']
        for node in public(package, room):
            kind = 'class' if isinstance(node, ast.ClassDef) else 'function'
            lines += describe(kind, node.name, node)
        (folder / f'{room}.rst').write_text('\n'.join(lines), encoding='utf8')
