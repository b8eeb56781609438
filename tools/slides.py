"""Make slides for a lecture from the stored notebooks; nothing is executed.

``make slides SESSION='five weeks 2'`` writes a session of the teacher's plans to
``build/slides/five-weeks-2.html``, ``make slides CHAPTER=3`` all sections of a chapter: one
self-contained file. ``exercises/teaching/plan.yml`` says what is shown, and in which order: for
each section the pieces in `show`, the question, and its answer. A piece of text identifies a code
cell, shown by its output (and its source, if that is short or there is no output), or a paragraph,
figure, formula, table or list. The chapter's text becomes the speaker's notes.
"""

import re
from pathlib import Path

import click
import nbformat
import teaching_plan as plans
from chapters import CHAPTERS
from nbconvert import HTMLExporter
from on_ranks import coloured, quiet
from pages import prefer_pictures, text_of
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer, PythonLexer, TextLexer
from run_notebooks import FOLDER, ROOT, ChapterError, find_chapters, write
from slide_figures import aspect_ratio, cut

NOTEBOOKS = ROOT / 'notebooks'
TEMPLATE = Path(__file__).resolve().with_name('slides.html.j2')
STYLES = {'light': HtmlFormatter(style='default'), 'dark': HtmlFormatter(style='github-dark')}
NARROW, HIGH = 1.85, 37.5  # below this aspect ratio a figure is next to the text, this high
TOGETHER, BESIDE = 17, 6  # lines of source and output on one slide; printed lines next to a picture
ROWS = 10  # the longest table that is shown whole
SAVED = re.compile(r'\A(%%px.*\n)?#@save\n')  # code that is also in the package; maybe on ranks
PARAGRAPH = re.compile(r'```.*?```|(?:(?!\n\n|```).)+', re.DOTALL)
UNSAID = re.compile(r'(?sm)<details>.*?</details>|^#+ [^\n]*|^!\[[^\n]*')  # left out of the notes


def coded(source, kind='code'):
    """Return a block of coloured code or printed output."""
    lexer = PythonLexer if kind == 'code' else TextLexer
    lexer = DiffLexer if re.search(r'^@@ |^[+-] {4}', source, re.MULTILINE) else lexer
    html = highlight(coloured(source), lexer(stripnl=False), STYLES['light'])
    return {'kind': kind, 'html': quiet(html)}


def drawn(figure, folder):
    """Return the block of a figure, or the blocks of its two halves if it is tall."""
    for half in cut(figure, folder):
        aspect = aspect_ratio(half, folder)
        beside = min(56, HIGH * aspect) if aspect < NARROW else 0  # its width next to the text
        yield {'kind': 'figure', 'html': text_of(half, up='../'), 'beside': round(beside, 1)}


def of_text(cell, piece, folder):
    """Return the block of the paragraph that contains a piece of text."""
    items = [part for p in PARAGRAPH.findall(cell.source) for part in re.split(r'\n(?=\d+\. )', p)]
    found = next((item for item in items if piece in item), cell.source)
    part = re.sub(r'^\d+\. ', '', found.strip())
    if part[:3] == '```':
        return [coded(part.split('\n', 1)[1].rstrip('`\n'), 'output')]
    if part[:2] == '![':
        return drawn(part, folder)
    kind = {'|': 'table', '$': 'formula'}.get(part[0], 'text')
    head, *rows = part.split('\n')
    if kind == 'table' and len(rows) > ROWS:  # of a long table, only the rows that were named
        part = '\n'.join([head, rows[0], *(row for row in rows if piece in row)])
    return [{'kind': kind, 'html': text_of(part, up='../')}]


def of_code(cell, folder):
    """Return the blocks of a code cell: its output, and its source if both fit on a slide."""
    source, blocks, lines = SAVED.sub(r'\1', cell.source).strip('\n'), [], 0
    for output in cell.outputs:
        data = output.get('data', {})
        text = (output.get('text') or data.get('text/plain', '')).strip('\n')
        if 'image/png' in data:
            picture = f'![](data:image/png;base64,{data["image/png"].strip()})'
            blocks += drawn(picture, folder)
        elif text.strip():
            html = data.get('text/html')
            lines += (text.count('\n') + 1) * (1.4 if html else 1)  # rows are taller than lines
            blocks.append({'kind': 'html', 'html': html} if html else coded(text, 'output'))
    if pictures := [block for block in blocks if block['kind'] == 'figure']:
        return blocks if lines <= BESIDE else pictures
    if blocks and source.count('\n') + lines > TOGETHER:
        return blocks
    return [coded(source), *blocks]


def blank(heading, words=(), blocks=(), notes=(), **more):
    lists = {'words': [*words], 'blocks': [*blocks], 'notes': [*notes]}
    return {'heading': heading, **lists, **more}


def spread(slide):
    """Move all figures but one to separate slides; the text stays with the last one (question) or
    the first one (answer).
    """
    figures = [block for block in slide['blocks'] if block['kind'] == 'figure']
    rest = [block for block in slide['blocks'] if block not in figures]
    keeps = len(figures) - 1 if slide.get('asks') else 0
    parts = [blank(slide['heading'], (), [figure]) for figure in figures]
    parts[keeps : keeps + 1] = [slide | {'blocks': [*rest, *figures[keeps : keeps + 1]]}]
    return parts


class Chapter:
    """A notebook, its sections by heading, and the teacher's plan for them."""

    def __init__(self, path, plan, question):
        nb = nbformat.read(path, as_version=4)
        prefer_pictures(nb)
        self.path, self.plan, self.question, self.sections = path, plan, question, {'opening': []}
        for cell in nb.cells:
            if cell.cell_type == 'markdown' and (heading := re.match('## (.+)', cell.source)):
                self.sections[heading[1]] = []
            if 'remove-cell' not in cell.metadata.get('tags', []):
                list(self.sections.values())[-1].append(cell)
        self.title = re.match('# (.+)', self.sections['opening'][0].source)[1]

    def find(self, section, piece):
        """Return the index of the only cell in a section with this piece of text, or this tag."""
        cells = self.sections[section]
        found = [
            i for i, c in enumerate(cells)
            if piece in c.source or piece in c.metadata.get('tags', [])
        ]  # fmt: skip
        if len(found) != 1:
            where = f"{self.path.name}, section '{section}'"
            raise ChapterError(f'{where}: {len(found)} cells have {piece!r}, which plan.yml names')
        return found[0]

    def shown(self, section, pieces):
        """Return the blocks of the cells that have these pieces of text."""
        for piece in [pieces] if isinstance(pieces, str) else pieces:
            cell, folder = self.sections[section][self.find(section, piece)], self.path.parent
            of = of_code(cell, folder) if cell.cell_type == 'code' else of_text(cell, piece, folder)
            yield from of

    def slides_of(self, name):
        """Return the slides of a section: the pieces in `show`, the question, and its answer."""
        entry = next((s for s in self.plan['sections'] if s['section'] == name), None)
        if name not in self.sections or not entry and name != 'opening':
            has = ' · '.join(self.sections)
            raise ChapterError(f"{self.path.name} has no section '{name}'. It has: {has}")
        texts = [c.source for c in self.sections[name] if c.cell_type == 'markdown']
        if name == 'opening':
            return [blank(self.title, [self.question], notes=texts)]
        *before, last = [[], *entry.get('show', [])] if 'ask' in entry else [[]]
        slides = [blank(name, (), self.shown(name, pieces)) for pieces in before if pieces]
        if 'ask' in entry:
            if 'task' in entry:  # on paper: the text; only the speaker sees the answer
                last = f'**{entry["task"]}'
            answer = [f'Many believe: {entry["wrong"]}'] if 'wrong' in entry else []
            asked = blank(name, [entry['ask']], self.shown(name, last), asks=True)
            cells = self.shown(name, entry.get('cell', []))
            slides += [asked, blank(name, [entry['answer']], cells, notes=answer)]
            if 'task' in entry:
                asked['notes'] += slides.pop()['words']
            slides += [blank(name, (), self.shown(name, more)) for more in entry.get('then', [])]
        for slide in slides[:1]:
            slide['notes'] += [UNSAID.sub('', text) for text in texts]
        return [part for slide in slides for part in spread(slide)]


def chapter_of(number):
    (path,) = find_chapters(NOTEBOOKS, str(number))
    return Chapter(path, plans.CHAPTERS[number], CHAPTERS[number - 1].question)


def entry_test():
    """Return the slides of the entry test: the questions, then the answers."""
    asked = plans.PLAN['entry_test']
    for what, key in (('questions, on paper', 'ask'), ('answers', 'answer')):
        for start in range(0, len(asked), 5):
            lines = [f'{i}. {q[key]}' for i, q in enumerate(asked, 1)][start : start + 5]
            yield blank(f'The entry test: {what}', ['\n'.join(lines)])


def session_slides(session):
    """Return the slides of a session, in the order of its parts."""
    slides = [blank(session['session'], where=f'{session["minutes"]} minutes')]
    for part in session['parts']:
        if 'chapter' in part:
            chapter = chapter_of(part['chapter'])
            slides += [s for name in part['sections'] for s in chapter.slides_of(name)]
        elif part['do'] == 'The entry test':
            slides += entry_test()
        else:
            asks = '\n'.join(f'{i}. {ask}' for i, ask in enumerate(part.get('asks', []), 1))
            words = [*filter(None, [plans.work(part), asks]), f'{part["minutes"]} minutes']
            slides.append(blank(part['do'], words))
    if home := session.get('home'):
        read = [f'* Read chapter {n}: {" · ".join(of)}' for n, of in home.get('read', {}).items()]
        slides.append(blank('At home', ['\n'.join([*read, f'* Do {plans.work(home)}'])]))
    return slides


def page_of(slides, title, name):
    """Render slides as an HTML page for ``build/slides/``."""
    for slide in slides:
        slide['words'] = [text_of(words, up='../') for words in slide['words']]
        slide['notes'] = text_of('\n\n'.join(slide['notes']), up='../')
    nb = nbformat.v4.new_notebook(metadata={'title': re.sub('[`*]', '', title)})
    styles = {theme: style.get_style_defs('.highlight') for theme, style in STYLES.items()}
    resources = {'metadata': {'path': str(ROOT), 'name': name}}
    resources |= {'slides': slides, 'styles': styles}
    exporter = HTMLExporter(embed_images=True, template_file=str(TEMPLATE))
    return exporter.from_notebook_node(nb, resources=resources)[0]


def wanted(number, session):
    """Yield the name, the title and the slides of each requested page."""
    if session:
        of_all = plans.PLAN['plans'].items()
        found = {f'{plan} {i}': one for plan, of in of_all for i, one in enumerate(of, 1)}
        if session not in found:
            raise ChapterError(f"there is no session '{session}'. Sessions: {', '.join(found)}")
        title = found[session]['session']
        yield session.replace(' ', '-'), title, session_slides(found[session])
    for path in [] if session else find_chapters(NOTEBOOKS, number):
        chapter = chapter_of(int(path.name[:2]))
        slides = [blank(chapter.title, where=f'Chapter {int(path.name[:2])}')]
        slides += [slide for name in chapter.sections for slide in chapter.slides_of(name)]
        yield path.stem, chapter.title, slides


@click.command(help=__doc__.split('\n')[0])
@click.option('--chapter', metavar='N', help='A chapter (default: all).')
@click.option('--session', metavar='NAME', help="A session of a plan: 'five weeks 2'.")
@click.option('--build', type=FOLDER, default=ROOT / 'build' / 'slides', metavar='DIR')
def main(chapter, session, build):
    """Make slides for a session, for one chapter, or for every chapter."""
    build.mkdir(parents=True, exist_ok=True)
    for name, title, slides in wanted(chapter, session):
        write(build / f'{name}.html', page_of(slides, title, name))
        print(f'{name}  {len(slides)} slides: {build / name}.html')


if __name__ == '__main__':
    main()
