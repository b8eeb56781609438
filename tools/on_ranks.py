"""Format cells that run on ranks: a muted magic, coloured code, a small label for each rank."""

import re


def coloured(source):
    """Turn the magic into a comment, so that the Python lexer understands the lines below it."""
    return re.sub(r'\A%%px', '# %%px', source)


def quiet(html):
    """Restore the magic, in the colour of comments, and turn the ranks' names into labels."""
    html = re.sub(r'(<span class="c1">)# (%%px)', r'\1\2', html)
    return re.sub(r'(?m)(^|>)(\[std\w+:\d+\]) ?$', r'\1<span class="rank">\2</span>', html)
