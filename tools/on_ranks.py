"""Cells on ranks, as pages show them: the magic quiet, its code coloured, a small label a rank."""

import re


def coloured(source):
    """Make the magic a comment: then the lexer of Python knows the lines below it."""
    return re.sub(r'\A%%px', '# %%px', source)


def quiet(html):
    """Show the magic as it is typed, in the colour of comments, and ranks' names as labels."""
    html = re.sub(r'(<span class="c1">)# (%%px)', r'\1\2', html)
    return re.sub(r'(?m)(^|>)(\[std\w+:\d+\]) ?$', r'\1<span class="rank">\2</span>', html)
