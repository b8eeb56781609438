"""Print a chapter's sheet for the teacher (``make sheet CHAPTER=3``), from ``teaching/plan.yml``.

It has the questions for each section and their answers, the cells that show them, and common
mistakes in the exercises with their hints. ``CHAPTER=test`` is the entry test, with its answers on
a separate page. Each sheet is also written as a printable page, ``build/sheets/3.html``.
``teaching_plan.py guide`` rewrites the tables in the guide and the syllabus instead.
"""

import importlib
import os
import sys
from pathlib import Path

import click
import yaml
from chapters import CHAPTERS as LISTED

from student import SOURCES, python_of

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / 'exercises' / 'teaching' / 'guide.md'
SYLLABUS = GUIDE.with_name('syllabus.md')
PLAN = yaml.safe_load((ROOT / 'exercises' / 'teaching' / 'plan.yml').read_text(encoding='utf8'))
CHAPTERS, POINTS = PLAN['chapters'], PLAN['points']
PAPER = """<!DOCTYPE html><meta charset="utf-8"><title>{}</title><style>
@page {{ size: A4; margin: 18mm }}
body {{ font: 11pt/1.4 system-ui, sans-serif; max-width: 44em; margin: auto }}
h1 {{ font-size: 15pt }} h2 {{ font-size: 12pt; margin: 1em 0 .2em; break-after: avoid }}
.answers {{ break-before: page }} .room > ol > li {{ margin-bottom: 13mm }}
ul, ol {{ margin: .2em 0; padding-left: 1.5em }} li {{ break-inside: avoid }}
.anchor-link {{ display: none }}</style>
{}"""


def minutes_in(chapter):
    """Return {heading: minutes} for a chapter; 'opening' is the part before the first heading."""
    sections = {s['section']: s['minutes'] for s in CHAPTERS[chapter]['sections']}
    return {'opening': CHAPTERS[chapter]['opening'], **sections}


def minutes_of(part):
    if 'chapter' not in part:
        return part['minutes']
    return sum(minutes_in(part['chapter'])[name] for name in part['sections'])


def reading(home):
    """Return the minutes needed to read only these sections, from each chapter's total."""
    return sum(
        minutes_in(n)[name] * LISTED[n - 1].read / sum(minutes_in(n).values())
        for n, names in home['read'].items()
        for name in names
    )


def project_in(part):
    return PLAN['homework']['project'] in sum(part.get('tasks', {}).values(), [])


def hours_at_home(home):
    """Format the hours of homework in a week, without the project, to half an hour."""
    tasks = sum(map(len, home.get('tasks', {}).values())) - project_in(home)
    points = sum(POINTS[n][0] for n in home['exercises'])
    by = PLAN['homework']
    halves = round((reading(home) + points * by['point'] + tasks * by['task']) / 30)
    return f'{halves // 2}{"½" * (halves % 2)}'


def work(part):
    """Format the tasks: '1.3, 1.5 (3 points); "A famous bug" at the end of chapter 1'."""
    exercises = part.get('exercises', [])
    points = sum(POINTS[n][0] for n in exercises)
    what = [f'{", ".join(exercises)} ({points} points)'] if exercises else []
    for chapter, tasks in part.get('tasks', {}).items():
        what += [f'"{task}" at the end of chapter {chapter}' for task in tasks]
    return '; '.join(what)


def schedule(plan):
    """Return a plan's table: a row for each part of each session."""
    lines = ['| minutes | what |', '|---:|:---|']
    for session in PLAN['plans'][plan]:
        lines.append(f'| **{session["minutes"]}** | **{session["session"]}** |')
        for part in session['parts']:
            if 'chapter' in part:
                what = f'chapter {part["chapter"]}: {" · ".join(part["sections"])}'
            else:
                what = ': '.join(filter(None, [part['do'], work(part)]))
            lines.append(f'| {minutes_of(part)} | {what} |')
        if home := session.get('home'):
            read = [f'chapter {n}: {" · ".join(names)}' for n, names in home['read'].items()]
            lines.append(
                f'| home | read, in about {reading(home):.0f} minutes: {"; ".join(read)} |'
            )
            lines.append(f'| home | do {work(home)}; in all about {hours_at_home(home)} hours |')
            if project_in(home):
                hours = PLAN['homework']['hours']
                lines.append(f'| home | work on the project, for about {hours} hours |')
    return lines


def chapters():
    rows = {
        'in class, with its questions': [sum(minutes_in(n).values()) for n in CHAPTERS],
        'to read alone, every line once': [LISTED[n - 1].read for n in CHAPTERS],
    }
    return [
        f'| chapter | {" | ".join(map(str, CHAPTERS))} | all |',
        f'|:---|{"---:|" * len(CHAPTERS)}---:|',
        *(f'| {of} | {" | ".join(map(str, row))} | {sum(row)} |' for of, row in rows.items()),
    ]


def weeks(plan):
    """Return a syllabus's table: each week's topics in class, the work due by its end, points."""
    lines = ['| week | date | in class | in pairs | due at its end | points |']
    lines.append('|---:|:---|:---|:---|:---|---:|')
    total = 0
    for i, week in enumerate(PLAN['plans'][plan], 1):
        title = week['session'].split('. ', 1)[1].rstrip('.')
        numbers = sorted({part['chapter'] for part in week['parts'] if 'chapter' in part})
        chapters = f'chapter {numbers[0]}' if len(numbers) == 1 else (
            f'chapters {", ".join(map(str, numbers[:-1]))} and {numbers[-1]}'
        )  # fmt: skip
        pairs = [n for part in week['parts'] for n in part.get('exercises', [])]
        due = week['home']['exercises']
        points = sum(POINTS[n][0] for n in pairs + due)
        total += points
        title += '' if title.endswith('?') else '.'
        what = f'{title} {chapters.capitalize()} | {", ".join(pairs) or "–"} | {", ".join(due)}'
        lines.append(f'| {i} | | {what} | {points} |')
    return [*lines, f'| | | the project, a week after the last session | | | {total} in all |']


def objectives():
    """Return the table of objectives with chapters, exercises and points, then the talks."""
    lines = ['| a student can … | chapters | exercises | points |', '|:---|:---|:---|---:|']
    for name, text in PLAN['objectives'].items():
        where = [
            str(n)
            for n, c in CHAPTERS.items()
            if any(s.get('objective') == name for s in c['sections'])
        ]
        mine = {n: points for n, (points, objective) in POINTS.items() if objective == name}
        cells = [text[0].lower() + text[1:], ', '.join(where), ', '.join(mine) or 'in a talk']
        lines.append(f'| {" | ".join(cells)} | {sum(mine.values()) or "–"} |')
    total = sum(points for points, _ in POINTS.values())
    lines += [f'| **all** | | {len(POINTS)} | {total} |', '']
    for name, talk in PLAN['talks'].items():
        what = PLAN['objectives'][name]
        lines.append(f'* **{what}.** {talk["ask"]} A good answer: {talk["good"]}')
    return lines


def renewed(path):
    """Return the text of the guide or the syllabus, with up-to-date tables from plan.yml."""
    tables = {'chapters': chapters(), 'objectives': objectives()}
    tables |= {f'plan: {plan}': schedule(plan) for plan in PLAN['plans']}
    tables |= {f'weeks: {plan}': weeks(plan) for plan in PLAN['plans'] if 'weeks' in plan}
    text = path.read_text(encoding='utf8')
    for name, lines in tables.items():
        start, end = f'<!-- {name} -->', '<!-- end -->'
        before, found, rest = text.partition(start)
        if not found:
            continue
        text = '\n'.join([before + start, '', *lines, '', end]) + rest.split(end, 1)[1]
    return text


def mistakes_in(chapter):
    """Return the known mistakes in the exercises of chapter '3', or of 'puzzles'."""
    name = f'chapter{chapter}' if chapter.isdigit() else chapter
    return importlib.import_module(f'misconceptions.{name}').WRONG


def sheet(chapter):
    """Yield the lines of the sheet of chapter '3'; the puzzles have no sections."""
    number = int(chapter) if chapter.isdigit() else None
    if number in CHAPTERS:
        (path,) = ROOT.glob(f'notebooks/{number:02}-*.ipynb')
        yield f'# Chapter {number} ({path.name}), {sum(minutes_in(number).values())} minutes'
    for s in CHAPTERS.get(number, {'sections': []})['sections']:
        yield f'\n## {s["section"]} ({s["minutes"]} minutes)\n'
        if 'objective' in s:
            yield f'* A student can: {PLAN["objectives"][s["objective"]]}'
        if 'task' in s:
            yield f'* On paper: {s["task"]}'
        if 'ask' in s:
            yield f'* **Ask: {s["ask"]}**'
            yield f'* Answer: {s["answer"]}'
        if 'wrong' in s:
            yield f'* Many believe: {s["wrong"]}'
            yield f'* Shown by the cell with: `{s["cell"]}`'
            yield f'* Short of time, leave out: {s["skip"]}'
    yield f'\n## What students get wrong in the exercises {chapter}.1 and on, and the hint\n'
    from mgpu_exercises import check

    for number, what, answers, _ in mistakes_in(chapter):
        answers = answers if isinstance(answers, tuple) else (answers,)
        yield f'* **{number}** {what}\n  {check(number, *answers, name="Ada").sentence}'


def paper():
    """Yield the lines of the printable entry test, with its answers on a second page."""
    asked = PLAN['entry_test']
    yield '# Before the course: ten questions, eight minutes, on paper\n\n<div class="room">\n'
    yield from (f'{i}. {one["ask"]}' for i, one in enumerate(asked, 1))
    yield '\n</div>\n\n<h1 class="answers">The answers, and what to read</h1>\n'
    yield from (f'{i}. {a["answer"]} To read: {a["read"]}' for i, a in enumerate(asked, 1))


def printed(name):
    """Print a sheet, and write it as a printable page to ``build/sheets/``."""
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    text = '\n'.join([*(paper() if name == 'test' else sheet(name)), ''])
    page = ROOT / 'build' / 'sheets' / f'{name}.html'
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(PAPER.format(f'Sheet {name}', markdown2html_mistune(text)), encoding='utf8')
    click.echo(text)
    click.echo(f'sheet: to print, {page}', err=True)


@click.command()
@click.argument('what', type=click.Choice(['guide', 'test', *map(str, CHAPTERS), 'puzzles']))
def main(what):
    """Print a chapter's sheet, or rewrite the tables of the guide and the syllabus."""
    if what == 'guide':
        for path in (GUIDE, SYLLABUS):
            path.write_text(renewed(path), encoding='utf8')
        return
    python = python_of(SOURCES[what]) if what != 'test' else sys.executable
    if Path(python).parent != Path(sys.executable).parent:
        os.execv(python, [python, __file__, what])
    printed(what)


if __name__ == '__main__':
    main()
