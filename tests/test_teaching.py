"""The teacher's plan and guide say what is there: headings, cells, exercises, minutes, commands."""

import json
import re
import subprocess
import tarfile

import pytest
import teaching_plan
from checkouts import ROOT
from click.testing import CliRunner

CLOSING = ('Summary', 'Exercises', 'Next')  # of each chapter: no objective, no misconception
KEYS = {'section', 'minutes', 'objective', 'needs', 'ask', 'answer', 'wrong', 'cell', 'skip'}
LENGTHS = {
    '90 minutes': 90,
    'one day': 6 * 60,
    'five weeks': 5 * 90,
    'five weeks in PyTorch': 5 * 90,
    'language models': 90,
}
FOLDER = teaching_plan.GUIDE.parent
PLAN, GUIDE = teaching_plan.PLAN, teaching_plan.GUIDE.read_text(encoding='utf8')


def cells_by_section(path):
    """Return a notebook's cell sources by heading, in order; 'opening' is before the first."""
    sections = {'opening': []}
    for cell in json.loads(path.read_text(encoding='utf8'))['cells']:
        source = ''.join(cell['source'])
        if cell['cell_type'] == 'markdown' and (heading := re.match('## (.*)', source)):
            sections[heading[1]] = []
        sections[list(sections)[-1]].append(source)
    return sections


NOTEBOOKS = {
    int(p.name[:2]): cells_by_section(p) for p in sorted(ROOT.glob('notebooks/[0-9]*.ipynb'))
}
ORDER = [(n, section) for n, cells in NOTEBOOKS.items() for section in cells]
TASKS = {
    n: dict(re.findall(r'^\d+\. \*\*(.*?)\.?\*\*(.*)$', '\n'.join(cells['Exercises']), re.M))
    for n, cells in NOTEBOOKS.items()
}  # those at the end of a chapter: title and text
STUDENTS = {f'exercises/student/{p.name}' for p in ROOT.glob('exercises/*.ipynb')}
EXERCISES = [
    number
    for path in sorted(ROOT.glob('exercises/*.ipynb'))
    for cells in cells_by_section(path).values()
    for number in re.findall(r"^check\('(\w+\.\d+)'", '\n'.join(cells), re.M)
]


def needed(section, chapter):
    """Return a section's prerequisites: '1 The machine', or a section of its own chapter."""
    for name in section.get('needs', ()):
        other = re.match(r'(\d) (.*)', name)
        yield (int(other[1]), other[2]) if other else (chapter, name)


NEEDS = {
    (n, s['section']): list(needed(s, n))
    for n, chapter in PLAN['chapters'].items()
    for s in chapter['sections']
}


@pytest.mark.parametrize('n', NOTEBOOKS)
def test_every_section_is_planned_by_what_is_in_the_chapter(n):
    chapter, cells = PLAN['chapters'][n], NOTEBOOKS[n]
    assert ['opening', *(s['section'] for s in chapter['sections'])] == list(cells)
    for s in chapter['sections']:
        name = s['section']
        assert type(s['minutes']) is int and s['minutes'] > 0
        if name in CLOSING:
            assert set(s) - {'ask', 'answer', 'task'} == {'section', 'minutes'}
            assert ('ask' in s) == ('answer' in s)
            assert name != 'Exercises' or '(on paper)' in TASKS[n][s['task']]
            continue
        assert set(s) - {'show', 'then'} == KEYS, name
        assert all(s[key] for key in KEYS - {'needs'}), name
        assert s['objective'] in PLAN['objectives'], name
        matching = [cell for cell in cells[name] if s['cell'] in cell]
        assert len(matching) == 1, f'{name}: {len(matching)} cells with {s["cell"]!r}'
        for other in NEEDS[n, name]:
            assert other in ORDER[: ORDER.index((n, name))], f'{name} needs {other}'


def places(given):
    return [(n, name) for n, names in given.items() for name in names]


@pytest.mark.parametrize('plan', LENGTHS)
def test_a_plan_adds_up_and_needs_nothing_that_was_not_seen(plan):
    sessions, known, exercises = PLAN['plans'][plan], set(), []
    assert sum(session['minutes'] for session in sessions) == LENGTHS[plan]
    for session in sessions:
        known |= {(n, name) for n in session.get('knows', ()) for name in NOTEBOOKS[n]}
        assert sum(map(teaching_plan.minutes_of, session['parts'])) == session['minutes'], session
        home = session.get('home', {})
        for part in [*session['parts'], home]:
            read = part.get('read') or {part.get('chapter', 0): part.get('sections', [])}
            for place in places(read):
                assert place in ORDER and place not in known, place
                assert not set(NEEDS.get(place, [])) - known, f'{place} comes before what it needs'
                known.add(place)
            exercises += part.get('exercises', [])
            assert all(task in TASKS[n] for n, task in places(part.get('tasks', {})))
    assert len(set(exercises)) == len(exercises) and set(exercises) <= set(EXERCISES)


def test_each_exercise_has_points_and_each_objective_a_section():
    assert list(PLAN['points']) == EXERCISES, 'points in plan.yml, in the order of numbers'
    for points, objective in PLAN['points'].values():
        assert points in (1, 2, 3) and objective in PLAN['objectives']
    checked = {objective for _, objective in PLAN['points'].values()}
    assert sorted([*checked, *PLAN['talks']]) == sorted(PLAN['objectives'])
    sections = [s for chapter in PLAN['chapters'].values() for s in chapter['sections']]
    assert {s['objective'] for s in sections if 'objective' in s} == set(PLAN['objectives'])


def test_the_guide_has_the_plans_tables_and_names_what_is_there():
    for path in (teaching_plan.GUIDE, teaching_plan.SYLLABUS):
        renewed = teaching_plan.renewed(path) == path.read_text(encoding='utf8')
        assert renewed, '.venv/bin/python tools/teaching_plan.py guide regenerates them'
    for page in (GUIDE, (FOLDER / 'AGENTS.md').read_text(encoding='utf8')):
        assert all((FOLDER / to).exists() for to in re.findall(r'\]\(([^)#]+)\)', page))


@pytest.mark.skipif(not (ROOT / '.git').exists(), reason='needs a clone')
def test_what_is_handed_out_has_the_tasks_and_no_solution(tmp_path):
    subprocess.run(['make', 'pack'], cwd=ROOT, check=True)
    with tarfile.open(ROOT / 'build' / 'course.tar.gz') as packed:
        packed.extractall(tmp_path)
        names = [name.removeprefix('course/') for name in packed.getnames()]
        notebooks = [packed.extractfile(f'course/{n}').read() for n in names if n.endswith('ipynb')]
    assert {'Makefile', 'exercises/teaching/AGENTS.md', *STUDENTS} <= set(names)
    assert not [text for text in notebooks if b'BEGIN SOLUTION' in text]
    kept_back = ('tests/', 'exercises/misconceptions/', 'exercises/teaching/guide.md')
    kept_back += ('exercises/teaching/exams.md', 'exercises/teaching/forty.md')
    assert not [name for name in names if name.startswith(kept_back)]
    course = tmp_path / 'course'
    for page in ('README.md', 'exercises/teaching/syllabus.md', 'book/machines.md'):
        links = re.findall(r'\]\((?!http|#)([^)#]+)', (course / page).read_text('utf8'))
        assert not [to for to in links if not ((course / page).parent / to).exists()], page


@pytest.mark.parametrize('plan', ['five weeks', 'five weeks in PyTorch'])
def test_the_syllabus_has_each_exercise_of_a_plan_and_all_its_points(plan):
    table = (FOLDER / 'syllabus.md').read_text('utf8').split(f'<!-- weeks: {plan} -->')[1]
    rows = re.findall(r'^\| \d \|.*', table.split('<!-- end -->')[0], re.M)
    exercises = [
        [n for part in [*week['parts'], week['home']] for n in part.get('exercises', [])]
        for week in PLAN['plans'][plan]
    ]
    assert [re.findall(r'\d\.\d+', row) for row in rows] == exercises
    total = sum(PLAN['points'][n][0] for n in sum(exercises, []))
    assert f'{total} in all' in table


def test_the_sheet_of_a_chapter_has_its_sections_and_each_known_mistake_with_a_hint():
    from misconceptions.chapter1 import WRONG

    text = '\n'.join(teaching_plan.sheet('1'))
    assert all(f'\n## {section} (' in text for section in NOTEBOOKS[1] if section != 'opening')
    for s in PLAN['chapters'][1]['sections']:
        if 'ask' in s:
            assert f'* **Ask: {s["ask"]}**\n* Answer: {s["answer"]}\n' in text
    for number, what, _, hint in WRONG:
        assert hint in text.split(f'\n* **{number}** {what}\n')[1].split('\n')[0]


def test_the_entry_test_is_a_page_to_print_with_its_answers_on_another(tmp_path, monkeypatch):
    monkeypatch.setattr(teaching_plan, 'ROOT', tmp_path)
    done = CliRunner().invoke(teaching_plan.main, ['test'])
    assert done.exit_code == 0, done.output
    questions, answers = (tmp_path / 'build/sheets/test.html').read_text('utf8').split('<h1 class')
    assert questions.count('<li>') == answers.count('<li>') == len(PLAN['entry_test'])
