"""A chapter as one HTML file that needs nothing from elsewhere: figures, formulas and styles in it.

Jupyter's own pages fetch scripts from the internet; without it formulas stay raw TeX. Here a
displayed formula (``$$...$$``) becomes an SVG, set by matplotlib, which the course has anyway. The
page is light or dark as the reader's system asks for.
"""

import copy
import re
from pathlib import Path
from xml.sax.saxutils import quoteattr

from nbconvert import HTMLExporter

TEMPLATE = Path(__file__).resolve().with_name('page.html.j2')
WIDGET = 'application/vnd.jupyter.widget-view+json'
FORMULA = re.compile(r'\$\$(.+?)\$\$', re.DOTALL)
FORMULA_SIZE = 21  # pixels; beside text of 14
CHAPTER_LINK = re.compile(r'\]\((\d\d-[\w-]+)\.ipynb([)#])')


def prefer_pictures(nb):
    """Take widgets away, in place, from outputs that have a picture too, which needs no kernel."""
    for cell in nb.cells:
        for output in cell.get('outputs', []):
            data = output.get('data', {})
            if any(kind.startswith('image/') for kind in data):
                data.pop(WIDGET, None)


def formula(tex):
    """A formula as a ``<div>`` with an ``<svg>``, on one line, in the colour of the text around it.

    ``tex`` is what matplotlib's mathtext understands; a ValueError names a command that is not.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    tex = ' '.join(tex.split())
    font = FontProperties(math_fontfamily='cm')
    path = TextPath((0, 0), f'${tex}$', size=FORMULA_SIZE, prop=font)
    box, drawn = path.get_extents(), []
    for points, code in path.iter_segments(curves=True, simplify=False):
        pairs = zip(points[::2], -points[1::2])  # SVG counts downwards
        drawn.append(' MLQC'[code] if code < 5 else 'Z')
        drawn += [f'{x:.2f} {y:.2f}' for x, y in pairs] if code < 5 else []
    size = f'{box.width + 2:.1f}', f'{box.height + 2:.1f}'
    view = f'{box.x0 - 1:.1f} {-box.y1 - 1:.1f} {" ".join(size)}'
    return (
        f'<div class="formula"><svg role="img" aria-label={quoteattr(tex)} width="{size[0]}" '
        f'height="{size[1]}" viewBox="{view}"><path d="{" ".join(drawn)}"/></svg></div>'
    )


def title_of(nb):
    """A notebook's title: its first heading, without Markdown; None where there is none."""
    for cell in nb.cells:
        heading = re.match('# +(.+)', cell.source)
        if cell.cell_type == 'markdown' and heading:
            return re.sub('[`*]', '', heading[1])
    return None


def _set(found):
    try:
        return formula(found[1])
    except ValueError:  # a reader's own, perhaps; tests see to it that the course has none such
        return found[0]


def page_of(nb, folder, name):
    """A notebook, as it is stored or was run, as HTML; ``name`` is the title if it has none.

    Figures are found from ``folder``, where the notebook is. Links lead right from a folder beside
    it, such as ``build/``; those to other chapters lead to their pages.
    """
    nb = copy.deepcopy(nb)
    prefer_pictures(nb)
    for cell in nb.cells:
        if cell.cell_type == 'markdown':
            # nbconvert embeds no image from outside the folder it is told: it is told that above.
            text = cell.source.replace('../img/', 'img/')
            text = CHAPTER_LINK.sub(r'](\1.html\2', text)
            cell.source = FORMULA.sub(_set, text)
    nb.metadata.setdefault('title', title_of(nb) or name)
    resources = {'metadata': {'path': str(folder.parent), 'name': name}}
    exporter = HTMLExporter(embed_images=True, template_file=str(TEMPLATE))
    return exporter.from_notebook_node(nb, resources=resources)[0]
