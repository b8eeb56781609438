"""A chapter as one HTML file: what the browser of test_look.py does not see."""

import re

import pages
import pytest
from checkouts import ROOT
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

FOLDER = ROOT / 'notebooks'


def page(*cells, **metadata):
    return pages.page_of(new_notebook(cells=list(cells), metadata=metadata), FOLDER, '09-name')


def test_a_displayed_formula_is_set_and_one_that_cannot_be_is_left():
    html = page(new_markdown_cell(r'Before.' + '\n\n' + r'$$\sum_{i=1}^n x_i$$' + '\n\nAfter.'))
    (path,) = re.findall(r'<path d="([^"]+)"></path></svg></div>', html)
    assert re.fullmatch(r'([MLQCZ]( -?\d+\.\d\d)* ?)+', path) and path.startswith('M')
    assert r'aria-label="\sum_{i=1}^n x_i"' in html and '$$' not in html
    with pytest.raises(ValueError, match='underbrace'):
        pages.formula(r'\underbrace{x}')
    assert r'$$\underbrace{x}$$' in page(new_markdown_cell(r'$$\underbrace{x}$$'))


def test_a_cell_on_ranks_is_coloured_and_each_rank_is_a_label():
    said = new_output('stream', text='[stdout:0] \n3\n[stdout:1] \nno [stdout:1] here\n')
    html = page(new_code_cell('%%px --targets 1\nimport math', outputs=[said]))
    assert '<span class="c1">%%px --targets 1</span>' in html
    assert '<span class="kn">import</span>' in html
    assert html.count('class="rank"') == 2 and 'no [stdout:1] here' in html
