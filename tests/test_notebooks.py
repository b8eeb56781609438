"""The notebooks as files: what nbval, which runs them, does not look at."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = sorted((ROOT / 'notebooks').glob('[0-9]*.ipynb'))
# Where the functions that a chapter marks with #@save are kept.
KEPT_IN = {
    '01': ['mgpu_helpers.scratch'],
    '02': ['mgpu_helpers.gluon'],
    '03': [f'mgpu_helpers.collectives.{name}' for name in ('algorithms', 'bucket', 'training')]
    + [f'mgpu_helpers.scaling.{name}' for name in ('costs', 'curves')],
    '04': [f'mgpu_helpers.cluster.{name}' for name in ('training', 'checkpoint')],
    '05': [f'mgpu_helpers.pytorch.{name}' for name in ('scratch', 'devices', 'ddp')],
}


def code_cells(path):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == 'code']


def saved_cells():
    return [
        pytest.param(path, cell.source, id=f'{path.name[:2]}-{cell.source.split()[2]}')
        for path in CHAPTERS
        for cell in code_cells(path)
        if cell.source.startswith('#@save')
    ]


def bare(node):
    """Take docstrings and annotations out of a syntax tree; give its text."""
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part):
            part.body = part.body[1:]
        if isinstance(part, ast.FunctionDef):
            part.returns = None
        if isinstance(part, ast.arg):
            part.annotation = None
    return ast.dump(node)


def source_of(module):
    """Read a module's source without importing it: the chapter's framework may not be there."""
    return (ROOT / module.replace('.', '/')).with_suffix('.py').read_text(encoding='utf8')


def names_of(node):
    return [node.name] if hasattr(node, 'name') else [t.id for t in getattr(node, 'targets', [])]


def test_chapters_are_found():
    assert [path.name[:2] for path in CHAPTERS][: len(KEPT_IN)] == list(KEPT_IN)


@pytest.mark.parametrize('path,source', saved_cells())
def test_saved_cell_is_what_the_package_has(path, source):
    kept = {
        name: node
        for module in KEPT_IN[path.name[:2]]
        for node in ast.parse(source_of(module)).body
        for name in names_of(node)
    }
    shown = ast.parse(source).body
    assert shown
    for node in shown:
        for name in names_of(node):
            assert bare(node) == bare(kept[name]), f'{name} differs from the package'


@pytest.mark.parametrize('chapter', KEPT_IN)
def test_a_chapter_teaches_every_function_of_its_module(chapter):
    """Of its first one. Loading is shared plumbing; what else a reader can call is explained."""
    tree = ast.parse(source_of(KEPT_IN[chapter][0]))
    public = {n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name[0] != '_'}
    taught = {
        name
        for parameter in saved_cells()
        if parameter.values[0].name.startswith(chapter)
        for node in ast.parse(parameter.values[1]).body
        for name in names_of(node)
    }
    assert public - taught <= {'load_data_fashion_mnist', 'load_data_mnist'}


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.name)
def test_stored_from_one_clean_run(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != 'error', cell.source
            assert output.get('name') != 'stderr', output.text
            data = output.get('data', {})
            if '<Figure' in data.get('text/plain', ''):
                assert 'image/png' in data, cell.source


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.name)
def test_what_nbval_ignores_is_asserted(path):
    for cell in code_cells(path):
        if 'nbval-ignore-output' in cell.metadata.get('tags', []):
            # The one that shows nvidia-smi, or says that there is none, has nothing to be wrong.
            assert 'assert ' in cell.source or 'nvidia-smi' in cell.source, cell.source


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.name)
def test_cells_can_be_taught_from(path):
    for cell in code_cells(path):
        lines = cell.source.splitlines()
        assert len(lines) <= 22, cell.source
        assert max(map(len, lines)) <= 100, cell.source


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.name)
def test_figures_and_links_lead_somewhere(path):
    text = '\n'.join(
        c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == 'markdown'
    )
    targets = re.findall(r'\]\((?!https?:|#)([^)]+)\)', text)
    assert targets
    for target in targets:
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.name)
def test_hidden_answers_are_hidden_in_html_too(path):
    """A blank line would end the block for nbconvert, which closes it and shows the answer."""
    text = '\n'.join(
        c.source for c in nbformat.read(path, as_version=4).cells if c.cell_type == 'markdown'
    )
    answers = re.findall('<details>.*?</details>', text, re.DOTALL)
    assert answers
    for answer in answers:
        assert '\n\n' not in answer, answer
