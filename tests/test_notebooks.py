"""The notebooks as files: what nbval, which runs them, does not look at."""

import ast
import functools
import re
from pathlib import Path

import chapters
import nbformat
import pytest
from run_notebooks import tidied

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = [chapter.path for chapter in chapters.CHAPTERS]


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.name)
def path(request):
    return request.param


@functools.cache
def cells_of(path):
    return nbformat.read(path, as_version=4).cells


def markdown_cells(path):
    return [c.source for c in cells_of(path) if c.cell_type == 'markdown']


def code_cells(path):
    return [c for c in cells_of(path) if c.cell_type == 'code']


def is_check(node):
    """Tell whether a statement only calls ``arguments.…``, ``check_…`` or ``….check``."""
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = ast.unparse(node.value.func)
    return re.match(r'arguments\.|check_', called) is not None or called.endswith('.check')


def bare(node, checks):
    """Take docstrings, annotations and, if asked to, checks out of a syntax tree; give its text."""
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part):
            part.body = part.body[1:]
        if not checks and isinstance(getattr(part, 'body', None), list):
            part.body = [line for line in part.body if not is_check(line)]
        if isinstance(part, ast.FunctionDef):
            part.returns = None
        if isinstance(part, ast.arg):
            part.annotation = None
    return ast.dump(node)


def statements_of(module):
    """Parse a module without importing it: the chapter's framework may not be there."""
    file = ROOT / 'mgpu_helpers' / f'{module}.py'
    return ast.parse(file.read_text(encoding='utf8')).body


def names_of(node):
    targets = getattr(node, 'targets', [])
    return [node.name] if hasattr(node, 'name') else [t.id for t in targets if hasattr(t, 'id')]


def test_every_notebook_is_listed_by_its_number():
    assert sorted((ROOT / 'notebooks').glob('*.ipynb')) == CHAPTERS
    assert [int(path.name[:2]) for path in CHAPTERS] == list(range(1, len(CHAPTERS) + 1))


def test_what_is_said_of_each_chapter_elsewhere_is_what_the_list_says():
    for path, text in chapters.renewed().items():
        assert path.read_text(encoding='utf8') == text, 'tools/chapters.py writes it anew'


@pytest.mark.parametrize('chapter', chapters.CHAPTERS, ids=lambda chapter: chapter.file)
def test_saved_cells_are_what_the_package_has_and_teach_its_first_module(chapter):
    """The notebook shows the idea alone; the package adds the checks."""
    cells = [cell.source for cell in code_cells(chapter.path)]
    cells = [re.sub(r'\A%%px.*\n', '', source) for source in cells]  # what runs on ranks
    saved = [source for source in cells if source.startswith('#@save')]
    assert bool(saved) == bool(chapter.code)
    if not saved:
        return
    first, *more = (statements_of(module) for module in chapter.code)
    kept = {name: node for node in sum(more, first) for name in names_of(node)}
    nodes = [node for cell in saved for node in ast.parse(cell).body]
    shown = [(name, node) for node in nodes for name in names_of(node)]
    for name, node in shown:
        ours = bare(kept[name], checks=False)
        assert bare(node, checks=True) == ours, f'{name} differs from the package'
    public = {n.name for n in first if isinstance(n, ast.FunctionDef) and n.name[0] != '_'}
    plumbing = {'load_data_fashion_mnist', 'load_data_mnist', 'devices_of', 'parameters_of'}
    plumbing |= {'views', 'whole_of', 'zero_gradients', 'any_number'}  # for idle devices
    assert {name for name in public - set(dict(shown)) if not name.startswith('check_')} <= plumbing


def test_stored_from_one_clean_run_without_what_an_editor_adds(path):
    tidy = path.read_text(encoding='utf8') == tidied(path)
    assert tidy, 'make run RUN_ARGS=--tidy fixes the format'
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != 'error', cell.source
            assert output.get('name') != 'stderr', output.text
            data = output.get('data', {})
            if '<Figure' in data.get('text/plain', ''):
                assert 'image/png' in data, cell.source


def test_cells_can_be_taught_from_and_assert_what_nbval_ignores(path):
    """Or a cell below does, which pages and slides leave out."""
    checked = False
    for cell in reversed(code_cells(path)):
        lines = cell.source.splitlines()
        tags = cell.metadata.get('tags', [])
        whole = 'remove-cell' in tags or lines[:1] and lines[0].startswith('%%writefile')
        assert len(lines) <= (45 if whole else 20), cell.source
        assert max(map(len, lines)) <= 100, cell.source
        checked = checked or 'remove-cell' in tags and 'assert ' in cell.source
        if 'nbval-ignore-output' in tags:
            # The one that shows nvidia-smi, or says that there is none, has nothing to be wrong.
            words = 'assert ', 'nvidia-smi'
            assert checked or any(word in cell.source for word in words), cell.source


def test_figures_and_links_lead_somewhere_and_answers_are_hidden_in_html_too(path):
    """A blank line would end the block for nbconvert, which closes it and shows the answer."""
    text = '\n'.join(markdown_cells(path))
    targets = re.findall(r'\]\((?!https?:|#)([^)]+)\)', text)
    answers = re.findall('<details>.*?</details>', text, re.DOTALL)
    assert targets and answers
    for target in targets:
        assert (path.parent / target).exists(), target
    for answer in answers:
        assert '\n\n' not in answer, answer


LAST = ['Summary', 'Exercises', 'Next']


def title(path):
    return markdown_cells(path)[0].splitlines()[0].removeprefix('# ')


def test_a_chapter_says_where_in_the_course_it_is(path):
    assert cells_of(path)[0].cell_type == 'markdown'
    lines = markdown_cells(path)[0].splitlines()
    assert re.fullmatch(r'# \S.*', lines[0])
    assert lines[2].startswith('*Chapter '), lines[2]
    opening = '\n'.join(lines[3:])
    assert '?' in opening and '**' in opening, 'its question, and its answer in bold'


def test_sections_are_alike_in_all_chapters(path):
    """A heading begins its cell, so that JupyterLab can fold the section and a diff names it."""
    headings = []
    for source in markdown_cells(path)[1:]:
        plain = re.sub('```.*?```', '', source, flags=re.DOTALL)
        in_cell = re.findall(r'^(#+) (.+)$', plain, re.MULTILINE)
        assert len(in_cell) == source.startswith('#'), source
        headings += in_cell
    assert {level for level, _ in headings} == {'##'}
    words = [heading for _, heading in headings if not heading.startswith('Appendix')]
    assert words[-3:] == LAST and len(set(words)) == len(words)


def test_a_chapter_ends_with_exercises_and_the_way_on(path):
    *_, exercises, way_on = markdown_cells(path)
    assert exercises.startswith('## Exercises\n') and '\n\n1. **' in exercises
    checked = (ROOT / 'exercises' / path.name).exists()
    assert (f'(../exercises/{path.name})' in exercises) == checked
    others = dict(zip(CHAPTERS, CHAPTERS[1:])).get(path, CHAPTERS[0])  # after the last, the first
    assert f'[{title(others)}]({others.name})' in way_on
    numbers = [int(n) for n in re.findall(r'^(\d+)\. \*\*', exercises, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    # What is to be done on paper has an answer.
    for exercise in re.split(r'^\d+\. ', exercises, flags=re.MULTILINE)[1:]:
        assert '(on paper)' not in exercise or '<summary>Answer</summary>' in exercise, exercise
