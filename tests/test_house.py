"""The house: few rooms, thin files, no circles, and nothing that nobody calls."""

import ast
import re
from pathlib import Path

from chapters import CHAPTERS

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'mgpu_helpers'
FILES = sorted([*PACKAGE.rglob('*.py'), *ROOT.glob('exercises/mgpu_exercises/*.py')])
TREES = {path: ast.parse(path.read_text(encoding='utf8')) for path in FILES}


def module_of(path):
    """Name a file's module; ``__init__.py`` counts as the package."""
    parts = path.relative_to(ROOT).with_suffix('').parts
    parts = parts[parts[0] == 'exercises' :]  # whose package lies beside its notebooks
    return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


MODULES = {module_of(path): path for path in FILES}


def imported(path):
    """List the package's files that a file imports, at its head, in a function, or for hints."""
    here = module_of(path).split('.')
    if path.name != '__init__.py':
        here = here[:-1]
    for node in ast.walk(TREES[path]):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            base = '.'.join(base + ([node.module] if node.module else []))
            names = [f'{base}.{alias.name}' for alias in node.names] + [base]
        yield from (MODULES[name] for name in names if MODULES.get(name, path) != path)


def reachable(graph, start):
    reached, waiting = set(), [start]
    while waiting:
        for there in graph[waiting.pop()] - reached:
            reached.add(there)
            waiting.append(there)
    return reached


def test_no_file_imports_itself_through_others():
    # A face loads its parts when they are asked for, so what asks the face is no circle.
    graph = {path: {p for p in imported(path) if p.name != '__init__.py'} for path in FILES}
    circles = [module_of(path) for path in FILES if path in reachable(graph, path)]
    assert not circles


def test_shared_rooms_know_no_chapter():
    shared = 'runtime arguments display history data devices processes lanes'.split()

    def room(path):
        return path.relative_to(ROOT).with_suffix('').parts[1]

    for path in FILES:
        if room(path) in shared:
            assert {room(p) for p in imported(path)} <= {*shared, '__init__'}, path


def test_the_package_is_thin():
    long = {module_of(p): n for p in FILES if (n := p.read_text().count('\n')) > 300}
    assert not long, 'a file over 300 lines is two ideas'
    folders = {path.parent for path in FILES if path.parent.parent == PACKAGE}
    assert len(list(PACKAGE.glob('*.py'))) + len(folders) <= 11 + len(CHAPTERS)


# At most so many lines, by `wc -l`. A room that is still above its cap only shrinks.
ROOMS = {
    'scratch gluon': 500,
    'collectives': 640,
    'timeline lanes': 620,
    'cluster': 600,
    'pytorch': 1_800,
    'scaling': 950,
    'doctor': 250,
    'data': 522,  # to be 440
    'processes': 400,
    'arguments': 374,  # to be 260
    'devices': 320,  # to be 220
    'display history': 240,
}
FOLDERS = {'tests': 9_135, 'exercises': 7_800, 'benchmarks': 1_200, 'training': 1_300}
FOLDERS |= {'tools': 2_942}  # to be 2,000: the grader and its wire have 1,200


def lines_in(*places):
    files = [
        path
        for place in places
        for path in (place.rglob('*.py') if place.is_dir() else [place.with_suffix('.py')])
    ]
    return sum(path.read_bytes().count(b'\n') for path in files)


def test_each_room_and_the_whole_house_keep_their_size():
    size = {name: lines_in(*(PACKAGE / room for room in name.split())) for name in ROOMS}
    size |= {name: lines_in(ROOT / name) for name in FOLDERS}
    wide = {name: n for name, n in size.items() if n > (ROOMS | FOLDERS)[name]}
    assert not wide
    assert lines_in(PACKAGE) <= 7_850
    others = (ROOT / name for name in ('img', 'book', 'conftest'))
    assert sum(size[name] for name in FOLDERS) + lines_in(PACKAGE, *others) <= 34_000


# Habits of ours that nobody would say to a colleague; CONTRIBUTING has the words to use instead.
TICS = re.compile(
    r'\b(whoever|who has|by how much|(is|are) (not )?to be had|is said|told apart|so many'
    r'|how it goes|without a word|begins? anew|gives? back|where there (is|are)|for nobody)\b',
    re.IGNORECASE,
)


def test_pages_exercises_and_messages_have_none_of_our_tics():
    texts = list(PACKAGE.rglob('*.py'))
    for folder in ('book', '.github', 'exercises'):
        texts += [p for p in (ROOT / folder).rglob('*.*') if p.suffix in ('.md', '.ipynb', '.py')]
    for path in texts:
        prose = re.sub(r'(`+)[^`]+\1|image/png.*', '', path.read_text(encoding='utf8'))
        said = [found[0] for found in TICS.finditer(prose)]
        assert not said, f'{path.relative_to(ROOT)} says {said}'
