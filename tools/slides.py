"""Make slides for a lecture from the stored notebooks; nothing is executed.

``make slides`` calls this and writes ``build/slides/NN-name.html``, each a self-contained file.
Shown are: of each paragraph the sentence with bold words, list items, figures, formulas, tables,
plots, short outputs, and the short functions that the chapter teaches; a paragraph without bold
words only right before one of these. A slide shows one thing, half of a tall figure say, with the
chapter's text as a note for the speaker. The tag ``slide`` shows a cell's output however long it
is, or its source if it has none; ``skip-slide`` shows nothing of a cell. ``make slides
SESSION='five weeks 2'`` writes instead a session of the teacher's plans, each question before the
cell that answers it.
"""

import re
import sys
from pathlib import Path

import click
import nbformat
from pages import FORMULA, exported, prefer_pictures, text_of, title_of
from run_notebooks import FOLDER, ROOT, ChapterError, find_chapters, write
from slide_layout import LEAST, STYLES, arranged, fitted

TEMPLATE = Path(__file__).resolve().with_name('slides.html.j2')
LINES = 14  # longer code and output needs the tag `slide`
TRIED = 8  # lines of a cell that tries out what the cell before it defines
TITLE = 50  # letters of a slide's title, which has one line
DRAWN = 'figure', 'formula', 'table'
PLAIN = 36  # words kept of a paragraph without bold words
# Text within which no sentence ends; a paragraph or a listing; the start of a list item.
WHOLE = re.compile(r'\*\*.+?\*\*|`[^`]+`|\[[^]]*\]\([^)]*\)|.', re.DOTALL)
PARAGRAPH = re.compile(r'```.*?```|(?:(?!\n\n|```).)+', re.DOTALL)
POINT = re.compile(r'(?:\*|\d+\.) ')
# A sentence that begins so says nothing without the one before it.
REFERS = re.compile(
    r'[*(]*(?:(?:It|Its|They|These|Their|This|That|Those|Both|Neither|So|But|Then)\b'
    r'|(?:\w+ ){1,4}(?:it|they|them)\b)'
)


def sentences(paragraph):
    """Cut a paragraph into sentences."""
    parts, cut = WHOLE.findall(' '.join(paragraph.split())), ['']
    for part, after in zip(parts, [*parts[1:], ' ']):
        ended = re.search(r'[.?!]["”)*]*$', cut[-1]) and not POINT.fullmatch(cut[-1] + ' ')
        if part == ' ' and ended and not after[0].islower():
            cut.append('')
        else:
            cut[-1] += part
    return cut


def key_of(paragraph):
    """Return the sentence with bold words, with what it needs around it; or ''.

    That is the next one if it is short or asks, and those before it while it refers to them.
    """
    parts = sentences(paragraph)
    for i, part in enumerate(parts):
        if '**' in part:
            short = len(re.sub(r'\(.*?\)', '', POINT.sub('', part)).split()) < 6
            end = i + 1 + (short or '?' in part)
            while i > 0 and REFERS.match(parts[i]):
                i -= 1
            return ' '.join(parts[i:end])
    return ''


def beginning(paragraph):
    """Return the first sentences, at least one, up to ``PLAIN`` words."""
    first, *others = sentences(paragraph)
    for sentence in others:
        if len(f'{first} {sentence}'.split()) > PLAIN:
            break
        first += ' ' + sentence
    return first


def from_text(source):
    """Yield what slides show of a text cell, in order: (kind, Markdown)."""
    source = re.sub(r'(?s)<details>.*?</details>|(?-s:^#+ .*)', '', source, flags=re.MULTILINE)
    part = key = ''
    for text in PARAGRAPH.findall(source):
        for part in re.split(r'\n(?=\* |\d+\. )', text.strip()) if text[:3] != '```' else [text]:
            key = key_of(part)
            if part[:3] == '```':
                yield 'output', part.split('\n', 1)[1].rstrip('`\n')
            elif part[:2] == '![' or part[:1] == '|' or FORMULA.fullmatch(part):
                yield {'!': 'figure', '|': 'table', '$': 'formula'}[part[0]], part
            elif POINT.match(part):
                yield 'point', key or beginning(part)
            elif part:
                yield 'key' if key else 'plain', key or beginning(part)
    end = sentences(part)[-1] if key else key
    if (
        key
        and not key.endswith(end)
        and (end[-1] == ':' or end[0] != '(' and not POINT.match(part))
    ):
        yield 'tail', end


SAVED = re.compile(r'\A(%%px.*\n)?#@save\n')  # what the package has too; on ranks, maybe


def from_code(cell, taught):
    """List what slides show of a code cell; ``taught``: the cell before defines a function."""
    tags, shown = cell.metadata.get('tags', []), []
    if {'skip-slide', 'remove-cell'} & {*tags}:
        return shown
    source = SAVED.sub(r'\1', cell.source).strip('\n')
    chosen, saved = 'slide' in tags, SAVED.match(cell.source)
    for output in cell.outputs:
        data = output.get('data', {})
        text = (output.get('text') or data.get('text/plain', '')).strip('\n')
        if 'image/png' in data:
            shown.append(('figure', f'![](data:image/png;base64,{data["image/png"].strip()})'))
        elif text.strip() and (text.count('\n') < LINES or chosen and 'text/html' not in data):
            html = data.get('text/html')
            shown.append(('html', html, text) if html else ('output', text))
    if saved and source.count('\n') < LINES or chosen and (saved or not shown):
        shown.insert(0, ('code', source))
    elif taught and shown and source.count('\n') < TRIED:  # shown if there is room for all of it
        shown.insert(0, ('trial', source))
    return shown


def groups_of(cells, taught=False):
    """Yield what slides show of a section, in order: lists of what belongs on one slide."""
    for cell in cells:
        if cell.cell_type == 'markdown':
            yield [('note', re.sub(r'^(#+ |!\[).*$', '', cell.source, flags=re.MULTILINE).strip())]
            if 'skip-slide' not in cell.metadata.get('tags', []):
                yield from ([item] for item in from_text(cell.source))
        else:
            yield from_code(cell, taught)
            taught = SAVED.match(cell.source)


def titled(slides):
    """Give slides after the first of a section a title: words in bold, or what the code defines."""
    for slide in slides[1:]:
        text = (slide['words'] or [''])[0]
        found = re.search(r'\*\*(.+?)\*\*', text)
        code = slide['blocks'][0]['text'] if slide['blocks'] else ''
        defined = re.search(r'(?m)^(?:def|class) (\w+)', code)
        alone = found and found[0] == text and not slide['blocks']
        if found and len(found[1]) <= TITLE and not POINT.match(text) and not alone:
            slide['heading'] = found[1][0].upper() + found[1][1:].rstrip('.:,')
            rest = text[found.end() :].strip()
            if not found.start() and found[1][-1] in '.:' and (rest or slide['blocks']):
                slide['words'][:1] = [rest] if rest else []  # else the title would stand twice
        elif defined and not found:
            slide['heading'] = f'`{defined[1]}`'
    return slides


def parts_of(heading, cells, folder, plan):
    """Arrange a section; ``plan``, if any, has a question, and a piece of the cell that answers."""
    answers = (i for i, cell in enumerate(cells) if plan.get('cell', '\0') in cell.source)
    cut = next(answers, 0)
    cut -= cut > 0 and cells[cut - 1].cell_type == 'markdown'  # what introduces the cell
    shown = []
    for part, taught in (
        (cells[:cut], False),
        (cells[cut:], cut and SAVED.match(cells[cut - 1].source)),
    ):
        if part == cells[cut:] and 'ask' in plan:
            note = f'Many believe: {plan["wrong"]}' if 'wrong' in plan else ''
            shown.append(blank(heading) | {'words': [plan['ask']], 'notes': [note], 'asks': True})
        groups = list(filter(None, groups_of(part, taught)))
        shown += titled(arranged(heading, groups, folder)) if groups else []
    return [{'section': heading} | slide for slide in shown]


def blank(heading):
    return {'heading': heading, 'where': '', 'words': [], 'blocks': [], 'notes': []}


def slides_of(nb, folder, plans=None):
    """Make all slides of a chapter; ``folder`` is the notebook's, to resolve its figures.

    ``plans`` has what the teacher's plan says of its sections, by their headings.
    """
    prefer_pictures(nb)
    sections = []
    for cell in nb.cells:
        heading = re.match('#+ (.+)', cell.source) if cell.cell_type == 'markdown' else None
        if heading or not sections:
            sections.append((heading[1] if heading else nb.metadata.title, []))
        sections[-1][1].append(cell)
    (title, (first, *others)), *sections = sections
    # Up to the first bold words or table, the opening names the chapter and asks its question.
    opening, rest = re.fullmatch(
        r'(.*?)((?:\n\n(?=[^\n]*\*\*|\|).*)?)', first.source, re.DOTALL
    ).groups()
    where, *asked = re.sub('^# .*', '', opening).strip().split('\n\n')
    words = [part for part in asked if '?' in part]
    slides = [blank(title) | {'section': title, 'where': where, 'words': words, 'notes': asked}]
    rest = nbformat.from_dict({'cell_type': 'markdown', 'source': rest.strip(), 'metadata': {}})
    texts = [cell for cell in others if cell.cell_type == 'markdown']
    for heading, cells in [(title, [rest, *texts]), *sections]:
        slides += parts_of(heading, cells, folder, (plans or {}).get(heading, {}))
    return slides


def session_of(name):
    """Find a session by its plan and number, 'five weeks 2', in the teacher's plans."""
    try:
        import teaching_plan  # students have no plan.yml
    except FileNotFoundError:
        raise ChapterError('this copy has no exercises/teaching/plan.yml: no sessions') from None
    plans = teaching_plan.PLAN['plans'].items()
    found = {f'{plan} {i}': one for plan, sessions in plans for i, one in enumerate(sessions, 1)}
    if name not in found:
        raise ChapterError(f"there is no session '{name}'. There are: {', '.join(found)}")
    return found[name], teaching_plan


def session_slides(name, notebooks):
    """Make the slides of a session, in the order of its parts; return them and its title."""
    session, plan = session_of(name)
    minutes = f'{session["minutes"]} minutes'
    slides = [blank(session['session']) | {'where': minutes, 'section': session['session']}]
    for part in session['parts']:
        if 'chapter' not in part:
            words = [*filter(None, [plan.work(part)]), f'{part["minutes"]} minutes']
            slides.append(blank(part['do']) | {'section': part['do'], 'words': words})
            continue
        (path,) = find_chapters(notebooks, str(part['chapter']))
        nb = nbformat.read(path, as_version=4)
        nb.metadata['title'] = title_of(nb)
        plans = {s['section']: s for s in plan.CHAPTERS[part['chapter']]['sections']}
        chapter = slides_of(nb, path.parent, plans)
        opening = chapter[0]['section']
        for section in part['sections']:
            wanted = opening if section == 'opening' else section
            slides += [slide for slide in chapter if slide['section'] == wanted]
    if home := session.get('home'):
        read = [f'Read chapter {n}: {", ".join(names)}.' for n, names in home['read'].items()]
        words = [*read, f'Do {plan.work(home)}.']
        slides.append(blank('At home') | {'section': 'At home', 'words': words})
    return slides, session['session']


def page_of(nb, folder, name, slides=None):
    """Render a chapter's slides as HTML, for ``build/slides/``; return it and their number.

    With ``slides``, those of a session, ``nb`` has the title alone.
    """
    nb.metadata['title'] = title_of(nb) or nb.metadata.get('title', name)
    slides = slides or slides_of(nb, folder)
    slides = [slide | (fitted(slide['words'], slide['blocks']) or LEAST) for slide in slides]
    for slide in slides:
        for part in ('words', 'notes'):
            slide[part] = text_of('\n\n'.join(slide[part]), up='../')
        slide['fills'] = any('aspect' in block for block in slide['blocks'])
        slide['blocks'] = [
            block | {'html': text_of(block['html'], up='../')} if block['kind'] in DRAWN else block
            for block in slide['blocks']
        ]
    styles = {theme: style.get_style_defs('.highlight') for theme, style in STYLES.items()}
    return exported(nb, folder, name, TEMPLATE, slides=slides, styles=styles), len(slides)


@click.command(help=__doc__.split('\n')[0])
@click.option('--chapter', metavar='N', help='Which: 1, or 1,3 (default: all there are).')
@click.option('--session', metavar='NAME', help="A session of a plan: 'five weeks 2'.")
@click.option('--notebooks', type=FOLDER, default=ROOT / 'notebooks', metavar='DIR')
@click.option('--build', type=FOLDER, default=ROOT / 'build' / 'slides', metavar='DIR')
def main(chapter, session, notebooks, build):
    """Exit status: 2 if there is no such chapter or session."""
    pages = []
    try:
        if session:
            slides, title = session_slides(session, notebooks)
            nb = nbformat.v4.new_notebook(metadata={'title': title})
            pages.append((nb, notebooks, session.replace(' ', '-'), slides))
        else:
            for path in find_chapters(notebooks, chapter):
                pages.append((nbformat.read(path, as_version=4), path.parent, path.stem))
    except ChapterError as error:
        click.echo(f'slides: {error}', err=True)
        sys.exit(2)
    build.mkdir(parents=True, exist_ok=True)
    for page in pages:
        html, number = page_of(*page)
        target = build / f'{page[2]}.html'
        write(target, html)
        print(f'{page[2]}  {number} slides: {target}')


if __name__ == '__main__':
    main()
