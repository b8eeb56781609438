"""Make slides for a lecture from the stored notebooks; nothing is executed.

``make slides`` calls this and writes ``build/slides/NN-name.html``, each a self-contained file.
Shown are: of each paragraph the sentence with bold words, list items, figures, formulas, tables,
plots, short outputs, and the short functions that the chapter teaches; a paragraph without bold
words only right before one of these. A slide shows one thing, with the chapter's text as a note for
the speaker. The tag ``slide`` shows a cell's output however long it is, or its source if it has
none; ``skip-slide`` shows nothing of a cell.
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
PLAIN = 36  # words kept of a paragraph without bold words
# Text within which no sentence ends; a paragraph or a listing; the start of a list item.
WHOLE = re.compile(r'\*\*.+?\*\*|`[^`]+`|\[[^]]*\]\([^)]*\)|.', re.DOTALL)
PARAGRAPH = re.compile(r'```.*?```|(?:(?!\n\n|```).)+', re.DOTALL)
POINT = re.compile(r'(?:\*|\d+\.) ')


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
    """Return the sentence with bold words, with the next one if it is short or asks; or ''."""
    parts = sentences(paragraph)
    for i, part in enumerate(parts):
        if '**' in part:
            short = len(re.sub(r'\(.*?\)', '', POINT.sub('', part)).split()) < 6
            return ' '.join(parts[i : i + 1 + (short or '?' in part)])
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


def from_code(cell, taught):
    """List what slides show of a code cell; ``taught``: the cell before defines a function."""
    tags, shown = cell.metadata.get('tags', []), []
    if {'skip-slide', 'remove-cell'} & {*tags}:
        return shown
    source = cell.source.removeprefix('#@save\n').strip('\n')
    chosen, saved = 'slide' in tags, cell.source.startswith('#@save')
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


def groups_of(cells):
    """Yield what slides show of a section, in order: lists of what belongs on one slide."""
    taught = False
    for cell in cells:
        if cell.cell_type == 'markdown':
            yield [('note', re.sub(r'^(#+ |!\[).*$', '', cell.source, flags=re.MULTILINE).strip())]
            if 'skip-slide' not in cell.metadata.get('tags', []):
                yield from ([item] for item in from_text(cell.source))
        else:
            yield from_code(cell, taught)
            taught = cell.source.startswith('#@save')


def slides_of(nb, folder):
    """Make all slides of a chapter; ``folder`` is the notebook's, to resolve its figures."""
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
    slides = [{'heading': title, 'where': where, 'words': words, 'blocks': [], 'notes': asked}]
    rest = nbformat.from_dict({'cell_type': 'markdown', 'source': rest.strip(), 'metadata': {}})
    texts = [cell for cell in others if cell.cell_type == 'markdown']
    for heading, cells in [(title, [rest, *texts]), *sections]:
        slides += arranged(heading, list(filter(None, groups_of(cells))), folder)
    return [slide | (fitted(slide['words'], slide['blocks']) or LEAST) for slide in slides]


def page_of(nb, folder, name):
    """Render a chapter's slides as HTML, for ``build/slides/``; return it and their number."""
    nb.metadata['title'] = title_of(nb) or name
    slides = slides_of(nb, folder)
    for slide in slides:
        for part in ('words', 'notes'):
            slide[part] = text_of('\n\n'.join(slide[part]), up='../')
        for block in slide['blocks']:
            if block['kind'] in ('figure', 'formula', 'table'):
                block['html'] = text_of(block['html'], up='../')
    styles = {theme: style.get_style_defs('.highlight') for theme, style in STYLES.items()}
    return exported(nb, folder, name, TEMPLATE, slides=slides, styles=styles), len(slides)


@click.command(help=__doc__.split('\n')[0])
@click.option('--chapter', metavar='N', help='Which: 1, or 1,3 (default: all there are).')
@click.option('--notebooks', type=FOLDER, default=ROOT / 'notebooks', metavar='DIR')
@click.option('--build', type=FOLDER, default=ROOT / 'build' / 'slides', metavar='DIR')
def main(chapter, notebooks, build):
    """Exit status: 2 if there is no such chapter."""
    try:
        chapters = find_chapters(notebooks, chapter)
    except ChapterError as error:
        click.echo(f'slides: {error}', err=True)
        sys.exit(2)
    build.mkdir(parents=True, exist_ok=True)
    for path in chapters:
        html, number = page_of(nbformat.read(path, as_version=4), path.parent, path.stem)
        write(build / f'{path.stem}.html', html)
        print(f'{path.stem}  {number} slides: {build / path.name}'.replace('.ipynb', '.html'))


if __name__ == '__main__':
    main()
