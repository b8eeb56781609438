"""Extend Sphinx for the book: formulas, glossary terms, links, buttons, smaller pages."""

import functools
import html
import json
import os
import re
from pathlib import Path

import reference
from chapters import CHAPTERS
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from on_ranks import coloured, quiet
from sphinx.addnodes import pending_xref
from sphinx.transforms.post_transforms import SphinxPostTransform

# Chapters that Colab can run.
PYTORCH = {f'notebooks/{c.file}' for c in CHAPTERS if c.framework == 'torch'}
DESCRIPTION = 'A course in notebooks on training a neural network on several GPUs, on any laptop.'
HOSTED = 'On Colab, [one cell](../elsewhere.md#colab-and-other-hosted-notebooks) comes first.'
ELSEWHERE = 'reference', 'training', 'elsewhere'  # "token" means something else there
NOT_LINKED = nodes.title | nodes.reference | nodes.literal | nodes.strong | nodes.table


def mathml(self, node):
    """Write a formula as MathML, which browsers set without a script."""
    tex = node.astext().replace(r'\dots', r'\ldots')  # the only command we use that it lacks
    if isinstance(node, nodes.math_block):  # in a narrow window, break the line before = and +
        parts = [tex2mathml(part, as_block=True) for part in re.split(r'(?=\\;[=+]\\;)', tex)]
        box = '<div class="formula pst-scrollable-table-container">{}</div>'
        self.body.append(box.format(' '.join(parts)))
    else:
        self.body.append(tex2mathml(tex))
    raise nodes.SkipNode


@functools.cache
def glossary(env):
    """Return each term's pattern, address and explanation; capitals inside a term must match."""
    terms = []
    for item in env.get_doctree('glossary').findall(nodes.definition_list_item):
        said = ' '.join(item.next_node(nodes.definition).astext().split())
        for term in item.findall(nodes.term):
            first, rest = re.escape(term.astext()[0]), re.escape(term.astext()[1:])
            first = f'[{first}{first.upper()}]'
            pattern = re.compile(rf'(?<![\w-]){first}{rest}(?:e?s)?(?![\w-])')
            terms.append((pattern, f'glossary#{term["ids"][0]}', said))
    return terms


class Terms(SphinxPostTransform):
    """Link each glossary term to its explanation where a page first uses it."""

    default_priority = 5

    def run(self):
        page = self.env.docname
        for xref in list(self.document.findall(pending_xref)):  # never link types
            if xref.get('refdomain') == 'py':
                xref.replace_self(xref.children)
        if page == 'glossary' or page.startswith(ELSEWHERE):
            return
        texts = [node for node in self.document.findall(nodes.Text) if self.may_link(node)]
        for pattern, address, said in glossary(self.env):
            for i, text in enumerate(texts):
                if match := pattern.search(text):
                    where = self.app.builder.get_relative_uri(page, 'glossary')
                    link = nodes.reference('', match[0], internal=True, reftitle=said)
                    link['refuri'] = f'{where}#{address.partition("#")[2]}'
                    link['classes'] = ['term']
                    before, after = text[: match.start()], text[match.end() :]
                    texts[i : i + 1] = parts = [nodes.Text(before), nodes.Text(after)]
                    text.parent.replace(text, [parts[0], link, parts[1]])
                    break

    @staticmethod
    def may_link(node):
        above = []
        while node.parent:
            node = node.parent
            above.append(node)
        return any(isinstance(n, nodes.paragraph) for n in above) and not any(
            isinstance(n, NOT_LINKED) for n in above
        )


def links(app, docname, source):
    """Adapt links: pages of book/ are at the site's top; exercises are the students' versions."""
    if docname == 'index' and os.environ.get('PDF'):
        link = '<p><a href="book.pdf">The whole book as a PDF</a></p>'
        source[0] = source[0].replace('\n## ', f'\n{link}\n\n## ', 1)
    if '/' not in docname:
        source[0] = source[0].replace('](../', '](')
    source[0] = source[0].replace('](../book/', '](../')
    source[0] = re.sub(r'(\]\(../exercises/)([\w-]+\.ipynb)', r'\1student/\2', source[0])
    if docname == 'measured':  # keep a range on one line
        source[0] = re.sub(r'(\d) to (\d)', '\\1\u00a0to\u00a0\\2', source[0])
    if docname.startswith(('notebooks/', 'exercises/student/')):
        notebook = json.loads(source[0])
        if docname in PYTORCH:
            notebook['cells'][0]['source'] += ['\n\n', HOSTED]
        source[0] = shown(notebook)
    if known := app.config.html_theme_options['repository_url']:
        before, clone = 'In the folder of the course,\n\n```\n', f'```\ngit clone {known} course\n'
        text = source[0].replace(before, f'{clone}cd course\n')
        source[0] = text.replace('https://github.com/OWNER/NAME', known)


def shown(notebook):
    """Remove the empty outputs that progress bars leave; give alt text to plots without it."""
    heading = ''
    for cell in notebook['cells']:
        text = ''.join(cell['source'])
        heading = ''.join(re.findall('^#+ (.*)', text)) or heading
        cell['source'] = coloured(text)
        if outputs := cell.get('outputs'):
            cell['outputs'] = [o for o in outputs if any(o.get('data', o).values())]
            alt = f'Plot: {heading}, what the cell above draws'
            cell['metadata'].setdefault('mystnb', {'image': {'alt': alt.replace('`', '')}})
    return json.dumps(notebook)


def buttons(app, pagename, templatename, context, doctree):
    """Omit Colab's button where MXNet is needed; point top-level pages' edit links to book/."""

    def kept(button):
        if 'url' in button and '/' not in pagename:
            button['url'] = button['url'].replace(f'/main/{pagename}.', f'/main/book/{pagename}.')
        if 'buttons' in button:
            button['buttons'] = list(filter(kept, button['buttons']))
        generated = pagename.startswith('reference/') and button.get('text') == 'Suggest edit'
        return (button.get('text') != 'Colab' or pagename in PYTORCH) and not generated

    context['header_buttons'] = list(filter(kept, context.get('header_buttons', [])))


def described(app, pagename, templatename, context, doctree):
    """Add a one-sentence description of the page for link previews and search engines."""
    questions = {f'notebooks/{c.file}': c.question for c in CHAPTERS}
    said = html.escape(questions.get(pagename, DESCRIPTION))
    title = html.escape(re.sub('<[^>]*>', '', context.get('title') or app.config.project))
    shown = {'og:title': title, 'og:description': said, 'twitter:card': 'summary_large_image'}
    if site := app.config.html_baseurl:
        shown |= {'og:url': context['pageurl'], 'og:image': f'{site}_static/card.png'}
    tags = [f'<meta property="{name}" content="{words}">' for name, words in shown.items()]
    tags += [context.get('metatags', ''), f'<meta name="description" content="{said}">']
    context['metatags'] = ''.join(tags)


def lighter(app, error):
    """Remove the icon script (1.6 MB; a font has the icons, too) and source maps; label buttons."""
    site = Path(app.outdir)
    for file in [*site.glob('_static/**/*.map'), *site.glob('_static/scripts/fontawesome.js')]:
        file.unlink()
    for page in site.rglob('*.html'):
        text = quiet(page.read_text('utf8'))
        # Screen readers cannot follow a list inside a term.
        text = re.sub(r'<dl>\n(?=<dd><em class="sig-param)', '', text)
        parameter = r'(?s)<dd>(<em class="sig-param.*?)</dd>(?:\n</dl>)?'
        text = re.sub(parameter, r'<span class="param">\1</span>', text)
        text = re.sub('<script[^>]*/fontawesome.js.*?</script>', '', text)
        # The theme's script uses the first of these buttons, which is in a hidden header.
        text = re.sub(r'(?s)<button class="pst-navbar-icon sidebar-toggle.*?</button>', '', text)
        # This button is named by its visible text, "Search" and its keyboard shortcut.
        text = re.sub(r'(search-button-field[^>]*) aria-label="Search"', r'\1', text)
        text = text.replace('<summary><span', '<summary aria-label="more"><span')
        text = re.sub(r'<th class="head[^"]*"><p></p></th>', '<td></td>', text)  # an empty heading
        text = re.sub(r'(<td[^>]*>)-(?=\d)', r'\1−', text)  # a minus sign, not a hyphen
        start = 'class="sidebar-primary-items__start'
        text = text.replace(start, f'role="region" aria-label="The book" {start}')
        page.write_text(text, 'utf8')


def setup(app):
    app.add_html_math_renderer('mathml', (mathml, None), (mathml, None))
    app.add_post_transform(Terms)
    app.connect('config-inited', lambda app, config: reference.write(Path(app.srcdir)))
    app.connect('source-read', links)
    app.connect('html-page-context', buttons, priority=900)
    app.connect('html-page-context', described)
    app.connect('build-finished', lighter)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
