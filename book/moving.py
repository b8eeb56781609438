"""Add animations after still figures: the data from steps.py, which static/steps.js draws.

On paper, and without JavaScript, readers see only the still figures.
"""

import json

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from steps import moving

PICTURES = [*moving()]
FILES = {'bill': 'explorer', 'scaling': 'explorer'}  # the others are named like their kind


class Moving(SphinxPostTransform):
    """Insert a page's animations at their places."""

    default_priority = 6
    formats = ('html',)

    def run(self):
        # Several may follow the same block, so they are inserted in reverse order.
        for page, after, kind, data in reversed(PICTURES):
            if page == self.env.docname:
                written = json.dumps(data, separators=(',', ':'), ensure_ascii=False)
                script = f'<script type="application/json">{written}</script>'
                text = f'<div class="moving" data-kind="{kind}">{script}</div>'
                self.insert(after, nodes.raw('', text, format='html'))

    def insert(self, after, raw):
        """Append it to the section titled ``after``, or insert it after that figure or code."""
        for node in self.document.findall():
            if isinstance(node, nodes.title) and node.astext() == after:
                node.parent.append(raw)
                return
            figure = isinstance(node, nodes.image) and node['uri'].endswith(f'/{after}')
            code = isinstance(node, nodes.literal_block) and after in node.astext()
            if figure or code:
                while not isinstance(node.parent, nodes.section):
                    node = node.parent
                node.parent.insert(node.parent.index(node) + 1, raw)
                return
        raise LookupError(f'{self.env.docname} has no {after!r} to place an animation after')


def scripts(app, pagename, templatename, context, doctree):
    """Load the drawing code on pages that have something to draw."""
    kinds = {kind for page, _, kind, _ in PICTURES if page == pagename}
    if kinds:
        app.add_css_file('steps.css')
        for name in ('steps', *sorted({FILES.get(kind, kind) for kind in kinds})):
            app.add_js_file(f'{name}.js', defer='defer')


def setup(app):
    app.add_post_transform(Moving)
    app.connect('html-page-context', scripts)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
