"""Citations as links to a page of references, and numbers and captions for the drawings."""

import json
import re
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

HERE = Path(__file__).resolve().parent
REFERENCES = yaml.safe_load((HERE / 'references.yml').read_text('utf8'))
for number, entry in enumerate(REFERENCES):
    entry['id'] = f'reference-{number + 1}'
    # The year belongs to the link where it follows.
    entry['pattern'] = entry.get('cited') and re.compile(
        rf'\b{re.escape(entry["cited"])}(?:,? {entry["year"]})?\b'
    )
    entry['said'] = f'{entry["authors"]} ({entry["year"]}): {entry["title"]}. {entry["venue"]}.'


def cites(text, entry):
    """Whether a chapter's text cites it, by name or by a link."""
    return entry['link'] in text or bool(entry['pattern'] and entry['pattern'].search(text))


def prose(notebook):
    """Give the text of a notebook's Markdown cells."""
    cells = json.loads(notebook.read_text('utf8'))['cells']
    return '\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')


def listed(notebooks):
    """Write the list of references, each with the chapters that cite it."""
    chapters = {path: prose(path) for path in sorted(notebooks.glob('[0-9]*.ipynb'))}
    for entry in REFERENCES:
        citing = [path for path, text in chapters.items() if cites(text, entry)]
        links = [f'[{int(p.name[:2])}](notebooks/{p.name})' for p in citing]
        yield (
            f'({entry["id"]})=\n**{entry["authors"]}** ({entry["year"]}). '
            f'[{entry["title"]}]({entry["link"]}). *{entry["venue"]}.* '
            f'Chapter{"s" * (len(links) > 1)} {", ".join(links)}.\n'
        )


class Citations(SphinxPostTransform):
    """Link each citation, with what it cites as its title."""

    default_priority = 4

    def run(self):
        if not self.env.docname.startswith('notebooks/'):
            return
        page = self.app.builder.get_relative_uri(self.env.docname, 'references')
        for entry in REFERENCES:
            for link in self.document.findall(nodes.reference):
                if link.get('refuri') == entry['link']:
                    link['reftitle'], link['classes'] = entry['said'], ['cite']
            for text in list(self.document.findall(nodes.Text)) if entry['pattern'] else ():
                match = entry['pattern'].search(text)
                inside = text.parent
                if not match or isinstance(inside, nodes.literal | nodes.reference | nodes.title):
                    continue
                to = {'refuri': f'{page}#{entry["id"]}', 'reftitle': entry['said']}
                link = nodes.reference('', match[0], internal=True, classes=['cite'], **to)
                parts = nodes.Text(text[: match.start()]), link, nodes.Text(text[match.end() :])
                inside.replace(text, [part for part in parts if part.astext()])


class Figures(SphinxTransform):
    """Make a chapter's drawing a figure with the drawing's own title; Sphinx numbers figures."""

    default_priority = 210

    def apply(self, **options):
        if not self.env.docname.startswith('notebooks/'):
            return
        for image in list(self.document.findall(nodes.image)):
            drawing = HERE.parent / 'img' / Path(image['uri']).name
            if len(image.parent) > 1 or not drawing.exists() or drawing.suffix != '.svg':
                continue
            title = re.search('<title[^>]*>([^<]*)', drawing.read_text('utf8'))[1]
            caption = nodes.caption('', title)
            figure = nodes.figure('', image.deepcopy(), caption, ids=[f'figure-{drawing.stem}'])
            image.parent.replace_self(figure)


def page(app, docname, source):
    """Put the list where the page of references has its mark."""
    if docname == 'references':
        entries = '\n'.join(listed(Path(app.srcdir) / 'notebooks'))
        source[0] = source[0].replace('<!-- references -->', entries)


def captions(app, error):
    """Let the search find figures as it finds sections."""
    file = Path(app.outdir) / 'searchindex.js'
    if error or not file.exists():
        return
    start, index = 'Search.setIndex(', file.read_text('utf8')
    known = json.loads(index.removeprefix(start).removesuffix(')'))
    for number, docname in enumerate(known['docnames']):
        for figure in app.env.get_doctree(docname).findall(nodes.figure):
            places = known['alltitles'].setdefault(figure[-1].astext(), [])
            places.append([number, figure['ids'][0]])
    file.write_text(f'{start}{json.dumps(known, separators=(",", ":"))})', 'utf8')


def setup(app):
    app.add_transform(Figures)
    app.add_post_transform(Citations)
    app.connect('source-read', page)
    app.connect('build-finished', captions)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
