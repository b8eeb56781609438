"""Distribute content over slides and choose sizes, by cautious estimates, without a browser.

A slide is 80 units wide and 45 high, in any window; all sizes here are in these units.
"""

import ast
import contextlib
import re
from itertools import pairwise, takewhile
from math import ceil

from on_ranks import coloured, quiet
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import DiffLexer, PythonLexer, TextLexer
from slide_figures import COLUMN, FULL, LEGIBLE, NEARLY, WHOLE, aspect_ratio, cut, place_for

STYLES = {'light': HtmlFormatter(style='default'), 'dark': HtmlFormatter(style='github-dark')}
WIDTH, HEIGHT = 74, 34  # the area below the heading
LETTER, FIXED, LINE = 0.56, 0.605, 1.35  # per font size: width of a letter, of a fixed one, a line
WORDS, ABOVE, READ = 2.6, 1.9, 1.5  # font size of text alone, of text above blocks, the smallest
CODE, SMALL = 1.9, 1.15  # font size of code, output and tables; at the smaller, 100 columns fit
FORMULA, GAP = 8, 1  # height of a formula, of a gap
HEAD = 9  # height of a heading in the narrow column beside a figure
LEAST = {'size': READ, 'small': SMALL, 'beside': 0}  # for content that cannot be cut
MANY, BROKEN = 120, 80  # the most words on a slide; the most characters in a line of a table
TEXT = ('note', 'plain', 'tail', 'key', 'point')
JOINED = 1.4  # at this font size or more, the blocks of two consecutive cells share a slide


def block_of(folder, kind, text, plain=''):
    """Make a block for the template, with its size in columns and rows of fixed-width letters."""
    kind = 'code' if kind == 'trial' else kind
    if kind == 'code':  # the comment of a long line goes above it, else all letters would be small
        text = re.sub(rf'(?m)^(?=.{{{BROKEN}}})( *)(.*\S)  (# .*)$', r'\1\3\n\1\2', text)
    block, lines = {'kind': kind, 'html': text, 'text': text}, (plain or text).splitlines()
    if kind == 'figure':
        return block | {'aspect': aspect_ratio(text, folder)}
    if kind == 'formula':
        return block
    if kind in ('code', 'output'):
        lexer = PythonLexer if kind == 'code' else TextLexer
        if 'def ' in text:
            with contextlib.suppress(SyntaxError):
                lexer = PythonLexer if ast.parse(coloured(text)) else TextLexer
        lexer = DiffLexer if re.search(r'^[+-] {4}', text, re.MULTILINE) else lexer
        block['html'] = quiet(highlight(coloured(text), lexer(stripnl=False), STYLES['light']))
    if kind == 'table':
        cells = [re.sub('[`*]', '', row).strip('|').split('|') for row in lines if '---' not in row]
        wide = [max(map(len, column)) for column in zip(*cells)]
        # In a table that is too wide, the cells of every column are wrapped.
        share = min(1, BROKEN / sum(wide))
        rows = sum(0.5 + max(ceil(len(c) / w / share) for c, w in zip(row, wide)) for row in cells)
        return block | {'columns': sum(wide) * share + 4, 'rows': rows}
    tight, high = (LETTER / FIXED, 1.3) if kind == 'html' else (1, 1)
    most = 100 if kind == 'code' else BROKEN  # output may wrap, so that its letters stay large
    rows = sum(ceil(len(line) * tight / most) or 1 for line in lines) + 1
    columns = min(max(map(len, lines)) * tight, most) + 4
    return block | {'columns': columns, 'rows': rows * high}


def height(words, size, width):
    """Estimate the height of paragraphs at a font size."""
    plain = (re.sub(r'\]\([^)]*\)|[*`\[]', '', text) for text in words)
    lines = (ceil(len(text) * LETTER * size / (width - 3 * size)) for text in plain)
    return sum((n * LINE + 0.7) * size for n in lines)


def column_for(words, size):
    """Return the least width in which words can stand beside a figure; 0 if there are too many."""
    letters = [len(word) for text in words for word in re.sub(r'\]\(.*?\)', '', text).split()]
    width = max(COLUMN, LETTER * size * max(letters, default=0))
    return width if height(words, size, width) <= WHOLE - HEAD else 0


def drawn(words, blocks, figure):
    """Fit a slide with a figure: words only where they leave it nearly as large as it can be."""
    rows, aspect = sum(block.get('rows', FORMULA) for block in blocks) - FORMULA, figure['aspect']
    alone = place_for(aspect, 0, COLUMN)[0]
    for size in (ABOVE, READ):
        above = height(words, size, FULL) + rows * LINE * SMALL + GAP * (len(blocks) - 1)
        column = column_for(words, size) if len(blocks) == 1 else 0
        width, column = place_for(aspect, above, column)
        if width >= min(LEGIBLE, NEARLY * alone):
            return {'size': size, 'small': SMALL, 'beside': round(column, 2)}
    return None


def fitted(words, blocks):
    """Return font sizes at which words and blocks fit on a slide, for the template, or None."""
    figures = [block for block in blocks if 'aspect' in block]
    texts = [block for block in blocks if 'rows' in block]
    if len(figures) > 1 or sum(len(text.split()) for text in words) > MANY:
        return None
    if figures:
        return drawn(words, blocks, figures[0])
    room = HEIGHT - GAP * len(blocks) - FORMULA * (len(blocks) - len(texts))
    rows = sum(block['rows'] for block in texts) * LINE
    size = ABOVE if blocks else WORDS
    while size >= READ and height(words, size, WIDTH) + rows * SMALL > room:
        size -= 0.1
    if size < READ:
        return None
    most = [WIDTH / FIXED / block['columns'] for block in texts]
    left = room - height(words, size, WIDTH)
    small = min([CODE, *most, left / rows if rows else CODE])
    return {'size': round(size, 2), 'small': round(small, 2), 'beside': 0}


def halves(group, folder):
    """Begin a new group with the second half of a tall figure."""
    groups = [[]]
    for kind, text, *more in group:
        first, *others = cut(text, folder) if kind == 'figure' else [text]
        groups[-1].append((kind, first, *more))
        groups += [[(kind, part)] for part in others]
    return groups


def pieces(folder, block):
    """Cut a block that is too long: a table between rows, a listing where it is indented least."""
    lines, head, parts = block['text'].split('\n'), [], []
    if block['kind'] not in ('code', 'output', 'table'):
        return [[block]]
    if block['kind'] == 'table':
        head, lines = lines[:2], lines[2:]
        most = ceil(len(lines) / 2)
    else:
        lines = [part for line in lines for part in re.findall('.{1,100}', line) or ['']]
        most = int(HEIGHT / SMALL / LINE) - 3
    while len(lines) > most:
        even = len(lines) / ceil(len(lines) / most)
        places = [i for i in range(ceil(0.6 * even), most + 1) if lines[i].strip('+- ')]
        cut = min(
            places or [most], key=lambda i: (len(re.match('[+-]? *', lines[i])[0]), abs(i - even))
        )
        parts.append(lines[:cut])
        lines = lines[cut:]
    texts = ('\n'.join([*head, *part]) for part in [*parts, lines])
    return [[block_of(folder, block['kind'], re.sub(r'(\n[+-]?)+$', '', text))] for text in texts]


def arranged(heading, groups, folder):
    """Arrange a section on slides: related content together, and no more than fits.

    ``groups`` are lists of (kind, text). A TEXT is a group by itself; a plain paragraph goes above
    the block that follows, and so does a tail, the last sentence of a paragraph with a key one.
    """
    slides, notes, plain, tail, last = [], [], [], [], ''
    groups = [part for group in groups for part in halves(group, folder)]

    def new():
        slides.append({'heading': heading, 'words': [], 'blocks': [], 'notes': []})

    def place(words, blocks, anew):
        if blocks and not fitted([], blocks):
            parts = [[b] for b in blocks] if len(blocks) > 1 else pieces(folder, blocks[0])
            for part in parts if len(parts) > 1 else ():
                place(words, part, anew)
                words, anew = [], False
            if len(parts) > 1:
                return
        now = slides[-1] if slides else {'words': [], 'blocks': []}
        both = fitted(now['words'] + words, now['blocks'] + blocks)
        if anew or not slides or not both or now['blocks'] and (words or both['small'] < JOINED):
            new()
            if words and blocks and not fitted(words, blocks):
                place(words, [], False)
                words = new()
        slides[-1]['words'] += words or []
        slides[-1]['blocks'] += blocks
        slides[-1]['notes'] += notes
        notes.clear()

    for i, group in enumerate(groups):
        kind, text = group[0][:2]
        if kind == 'note':
            notes.append(text)
        elif kind == 'plain':
            plain += [text] * (text[0] != '(')
        elif kind == 'tail':
            tail = [text]
        elif kind in TEXT:
            place([text], [], anew=last != kind and 'point' in (last, kind))
            plain, tail = [], []
        else:
            # Several paragraphs before several blocks belong to them one by one, from the last.
            run = list(takewhile(lambda group: group[0][0] not in TEXT, groups[i:]))
            plain = (plain or tail * (kind != 'code'))[-len(run) :]
            blocks = [block_of(folder, *item) for item in group]
            if kind == 'trial' and not fitted(plain[:1], blocks):
                blocks = blocks[1:]
            if not plain and last in ('key', 'point') and slides[-1]['words'][-1][-1] == ':':
                plain = [slides[-1]['words'].pop()]
                if not slides[-1]['words']:
                    notes[:0] = slides.pop()['notes']
            place(plain[:1], blocks, anew=plain != [] or last == 'point')
            plain, tail = plain[1:], []
        last = kind if kind not in ('note', 'tail') else last
    if not slides:
        place(plain[:1], [], True)
    slides[-1]['notes'] += notes
    for one, other in pairwise(slides):  # a list is split evenly, so that no item is left alone
        texts, alone = one['words'] + other['words'], not one['blocks'] + other['blocks']
        if alone and all(re.match(r'\*|\d+\.', text) for text in texts):
            half = min(len(one['words']), ceil(len(texts) / 2))
            one['words'], other['words'] = texts[:half], texts[half:]
    return slides
