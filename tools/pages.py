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
FORMULA_SIZE = 1.5  # of the text around it
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
    path = TextPath((0, 0), f'${tex}$', size=FORMULA_SIZE * 14, prop=font)
    box, drawn = path.get_extents(), []
    for points, code in path.iter_segments(curves=True, simplify=False):
        pairs = zip(points[::2], -points[1::2])  # SVG counts downwards
        drawn.append(' MLQC'[code] if code < 5 else 'Z')
        drawn += [f'{x:.2f} {y:.2f}' for x, y in pairs] if code < 5 else []
    size = box.width + 2, box.height + 2
    view = f'{box.x0 - 1:.1f} {-box.y1 - 1:.1f} {size[0]:.1f} {size[1]:.1f}'
    return (
        f'<div class="formula"><svg role="img" aria-label={quoteattr(tex)} '
        f'width="{size[0] / 14:.2f}em" height="{size[1] / 14:.2f}em" '
        f'viewBox="{view}"><path d="{" ".join(drawn)}"/></svg></div>'
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


def text_of(source, up=''):
    """A text cell's Markdown as a page can show it: formulas set, links to other chapters' pages.

    ``up`` leads from the page's folder to one beside ``notebooks/``, for links to other files.
    """
    # nbconvert embeds no image from outside the folder it is told: that is the one above.
    text = source.replace('../img/', 'img/').replace('](../', f'](../{up}')
    return FORMULA.sub(_set, CHAPTER_LINK.sub(r'](\1.html\2', text))


def exported(nb, folder, name, template, **more):
    """What a template makes of a notebook; ``name`` is the title if it has none.

    Figures are found from ``folder``, where the notebook is; ``more`` are further resources.
    """
    nb.metadata.setdefault('title', title_of(nb) or name)
    resources = {'metadata': {'path': str(folder.parent), 'name': name}, **more}
    exporter = HTMLExporter(embed_images=True, template_file=str(template))
    return exporter.from_notebook_node(nb, resources=resources)[0]


def page_of(nb, folder, name):
    """A notebook, as it is stored or was run, as HTML.

    Links lead right from a folder beside its own, such as ``build/``.
    """
    nb = copy.deepcopy(nb)
    prefer_pictures(nb)
    for cell in nb.cells:
        if cell.cell_type == 'markdown':
            cell.source = text_of(cell.source)
    return exported(nb, folder, name, TEMPLATE)
