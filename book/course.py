"""What the book needs of Sphinx beyond its options: formulas, links to the glossary."""

from docutils.utils.math.latex2mathml import tex2mathml


def slug(title):
    """Name a heading as JupyterLab does."""
    return title.replace(' ', '-')


def mathml(self, node):
    """Write a formula as MathML, which browsers set without a script or a font of ours."""
    from docutils import nodes

    block = isinstance(node, nodes.math_block)
    self.body.append(tex2mathml(node.astext().replace(r'\dots', r'\ldots'), as_block=block))
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer('mathml', (mathml, None), (mathml, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
