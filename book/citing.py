"""Link citations to a page of references; number the drawings and give them captions."""

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
    # A year that follows the name is part of the link.
    entry['pattern'] = entry.get('cited') and re.compile(
        rf'\b{re.escape(entry["cited"])}(?:,? {entry["year"]})?\b'
    )
    entry['said'] = f'{entry["authors"]} ({entry["year"]}): {entry["title"]}. {entry["venue"]}.'


def cites(text, entry):
    """Return whether a chapter's text cites a reference, by name or by a link."""
    return entry['link'] in text or bool(entry['pattern'] and entry['pattern'].search(text))


def prose(notebook):
    """Return the text of a notebook's Markdown cells."""
    cells = json.loads(notebook.read_text('utf8'))['cells']
    return '\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')


def listed(notebooks):
    """Yield each reference as Markdown, with links to the chapters that cite it."""
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
    """Link each citation; its tooltip is the full reference."""

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
    """Turn a chapter's drawings into numbered figures; the SVG's title is the caption."""

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
    """Insert the list at the marker in the page of references."""
    if docname == 'references':
        entries = '\n'.join(listed(Path(app.srcdir) / 'notebooks'))
        source[0] = source[0].replace('<!-- references -->', entries)


def captions(app, error):
    """Add figure captions to the search index, so that the search finds figures like sections."""
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
