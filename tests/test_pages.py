"""What a chapter's text and its cells on ranks become on a slide, which no browser needs to see."""

import re

import pages
import pytest
import slides


def test_a_displayed_formula_is_set_and_one_that_cannot_be_is_named():
    html = pages.text_of('Before.\n\n' + r'$$\sum_{i=1}^n x_i$$' + '\n\nAfter.')
    (path,) = re.findall(r'<path d="([^"]+)"/></svg></div>', html)
    assert re.fullmatch(r'([MLQCZ]( -?\d+\.\d\d)* ?)+', path) and path.startswith('M')
    assert r'aria-label="\sum_{i=1}^n x_i"' in html and '$$' not in html
    with pytest.raises(ValueError, match='underbrace'):
        pages.text_of(r'$$\underbrace{x}$$')


def test_a_cell_on_ranks_is_coloured_and_each_rank_is_a_label():
    html = slides.coded('%%px --targets 1\nimport math')['html']
    assert '<span class="c1">%%px --targets 1</span>' in html
    assert '<span class="kn">import</span>' in html
    html = slides.coded('[stdout:0] \n3\n[stdout:1] \nno [stdout:1] here\n', 'output')['html']
    assert html.count('class="rank"') == 2 and 'no [stdout:1] here' in html
