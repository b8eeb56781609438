"""Print a chapter's sheet for the teacher (``make sheet CHAPTER=3``), from ``teaching/plan.yml``.

It has the questions for each section, the cells that answer them, and common mistakes in the
exercises with their hints. ``teaching_plan.py guide`` rewrites the tables of the guide instead.
"""

import importlib
import subprocess
import sys
from pathlib import Path

import click
import yaml
from interpreters import python_of

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / 'exercises' / 'teaching' / 'guide.md'
PLAN = yaml.safe_load((ROOT / 'exercises' / 'teaching' / 'plan.yml').read_text(encoding='utf8'))
CHAPTERS, POINTS = PLAN['chapters'], PLAN['points']
ALL = [*map(str, CHAPTERS), 'puzzles']


def minutes_in(chapter):
    """Map a chapter's headings to their minutes; 'opening' is what precedes the first one."""
    sections = {s['section']: s['minutes'] for s in CHAPTERS[chapter]['sections']}
    return {'opening': CHAPTERS[chapter]['opening'], **sections}


def minutes_of(part):
    if 'chapter' not in part:
        return part['minutes']
    return sum(minutes_in(part['chapter'])[name] for name in part['sections'])


def work(part):
    """List the tasks: '1.3, 1.5 (3 points); "A famous bug" at the end of chapter 1'."""
    exercises = part.get('exercises', [])
    points = sum(POINTS[n][0] for n in exercises)
    what = [f'{", ".join(exercises)} ({points} points)'] if exercises else []
    for chapter, tasks in part.get('tasks', {}).items():
        what += [f'"{task}" at the end of chapter {chapter}' for task in tasks]
    return '; '.join(what)


def schedule(plan):
    """Make a plan's table: a row for each part of each session."""
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
            minutes = sum(
                minutes_in(n)[name] for n, names in home['read'].items() for name in names
            )
            lines.append(f'| home | read, in about {minutes} minutes: {"; ".join(read)} |')
            lines.append(f'| home | do {work(home)} |')
    return lines


def chapters():
    minutes = {n: sum(minutes_in(n).values()) for n in CHAPTERS}
    rule = '---:|' * len(minutes)
    return [
        f'| chapter | {" | ".join(map(str, minutes))} | all |',
        f'|:---|{rule}---:|',
        f'| minutes | {" | ".join(map(str, minutes.values()))} | {sum(minutes.values())} |',
    ]


def objectives():
    """Make the table of objectives with chapters, exercises and points, then the talks."""
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


def without_mxnet():
    """Make the table of what stands in for exercises that need MXNet."""
    lines, total = ['| instead of | do | points |', '|:---|:---|---:|'], 0
    for pair in PLAN['without_mxnet']:
        points = sum(POINTS[n][0] for n in pair['do'])
        lines.append(f'| {", ".join(pair["instead"])} | {", ".join(pair["do"])} | {points} |')
        total += points
    return [*lines, f'| **all** | | {total} |']


def renewed(text):
    """Return the guide's text, with its tables from plan.yml."""
    tables = {'chapters': chapters(), 'objectives': objectives(), 'without mxnet': without_mxnet()}
    tables |= {f'plan: {plan}': schedule(plan) for plan in PLAN['plans']}
    for name, lines in tables.items():
        start, end = f'<!-- {name} -->', '<!-- end -->'
        before, rest = text.split(start)
        text = '\n'.join([before + start, '', *lines, '', end]) + rest.split(end, 1)[1]
    return text


def source_of(chapter):
    """Find the exercises of chapter '3', or of 'puzzles'."""
    name = f'{int(chapter):02}-*.ipynb' if chapter.isdigit() else f'{chapter}.ipynb'
    return next((ROOT / 'exercises').glob(name))


def mistakes_in(chapter):
    """List known mistakes in the exercises of chapter '3', or of 'puzzles'."""
    importlib.import_module('mgpu_helpers')  # before MXNet, which takes its settings
    name = f'chapter{chapter}' if chapter.isdigit() else chapter
    return importlib.import_module(f'misconceptions.{name}').WRONG


def sheet(chapter):
    """Yield the lines of the sheet of chapter '3'; the puzzles have no sections."""
    number = int(chapter) if chapter.isdigit() else None
    if number in CHAPTERS:
        (path,) = ROOT.glob(f'notebooks/{number:02}-*.ipynb')
        yield f'# Chapter {number} ({path.name}), {sum(minutes_in(number).values())} minutes'
    for s in CHAPTERS.get(number, {'sections': []})['sections']:
        yield f'\n## {s["section"]} ({s["minutes"]} minutes)'
        if 'objective' in s:
            yield f'A student can: {PLAN["objectives"][s["objective"]]}'
        if 'task' in s:
            yield f'On paper: {s["task"]}'
        if 'ask' in s:
            yield f'Ask: {s["ask"]}'
        if 'wrong' in s:
            yield f'Many believe: {s["wrong"]}'
            yield f'What shows better, the cell with: {s["cell"]}'
            yield f'Short of time, leave out: {s["skip"]}'
    yield f'\n## What students get wrong in the exercises {chapter}.1 and on, and the hint'
    from mgpu_exercises import check

    for number, what, answers, _ in mistakes_in(chapter):
        answers = answers if isinstance(answers, tuple) else (answers,)
        yield f'\n{number}  {what}\n     {check(number, *answers, name="Ada").sentence}'


@click.command()
@click.argument('what', default='all', type=click.Choice(['guide', 'all', *ALL]))
def main(what):
    """Print the sheet of a chapter, or of all; or rewrite the guide's tables."""
    if what == 'guide':
        GUIDE.write_text(renewed(GUIDE.read_text(encoding='utf8')), encoding='utf8')
    else:
        for chapter in ALL if what == 'all' else [what]:
            python = python_of(source_of(chapter))
            if what != 'all' and Path(python).parent == Path(sys.executable).parent:
                click.echo('\n'.join([*sheet(chapter), '']))
            elif code := subprocess.run([python, __file__, chapter]).returncode:
                sys.exit(code)


if __name__ == '__main__':
    main()
