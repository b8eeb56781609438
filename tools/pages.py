"""Convert a notebook's text to HTML for a self-contained file, with its figures and formulas.

Jupyter's own pages fetch scripts from the internet; offline, formulas stay raw TeX. Here a
displayed formula (``$$...$$``) is drawn as an SVG by matplotlib, which the course needs anyway.
"""

import re
from xml.sax.saxutils import quoteattr

WIDGET = 'application/vnd.jupyter.widget-view+json'
FORMULA = re.compile(r'\$\$(.+?)\$\$', re.DOTALL)
FORMULA_SIZE = 1.5  # times the surrounding text
CHAPTER_LINK = re.compile(r'\]\((\d\d-[\w-]+)\.ipynb([)#])')


def prefer_pictures(nb):
    """Remove widgets, in place, from outputs that also have a picture, which needs no kernel."""
    for cell in nb.cells:
        for output in cell.get('outputs', []):
            data = output.get('data', {})
            if any(kind.startswith('image/') for kind in data):
                data.pop(WIDGET, None)


def formula(tex):
    """Return a ``<div>`` with the formula as an ``<svg>``, in the colour of the surrounding text.

    A ValueError names a command in ``tex`` that matplotlib's mathtext does not know.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    tex = ' '.join(tex.split())
    font = FontProperties(math_fontfamily='cm')
    path = TextPath((0, 0), f'${tex}$', size=FORMULA_SIZE * 14, prop=font)
    box, drawn = path.get_extents(), []
    for points, code in path.iter_segments(curves=True, simplify=False):
        pairs = zip(points[::2], -points[1::2])  # SVG's y axis points down
        drawn.append(' MLQC'[code] if code < 5 else 'Z')
        drawn += [f'{x:.2f} {y:.2f}' for x, y in pairs] if code < 5 else []
    size = box.width + 2, box.height + 2
    view = f'{box.x0 - 1:.1f} {-box.y1 - 1:.1f} {size[0]:.1f} {size[1]:.1f}'
    return (
        f'<div class="formula"><svg role="img" aria-label={quoteattr(tex)} '
        f'width="{size[0] / 14:.2f}em" height="{size[1] / 14:.2f}em" '
        f'viewBox="{view}"><path d="{" ".join(drawn)}"/></svg></div>'
    )


def text_of(source, up=''):
    """Convert Markdown for a page: formulas as SVG, links to notebooks as links to their pages.

    ``up`` is the path from the page's folder to the parent of ``notebooks/``, for links to files.
    """
    # nbconvert embeds images only from the given folder, here the one above notebooks/.
    text = source.replace('../img/', 'img/').replace('](../', f'](../{up}')
    return FORMULA.sub(lambda match: formula(match[1]), CHAPTER_LINK.sub(r'](\1.html\2', text))
