"""The published look: every chapter as a page in a real browser, light and dark.

Pictures of all pages are left in ``build/look/``: light, and dark where a check fails there.
"""

import re
from urllib.parse import unquote, urlparse

import nbformat
import pages
import pytest
from browser import Browser, lab
from checkouts import ROOT
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from PIL import Image

CHAPTERS = sorted((ROOT / 'notebooks').glob('[0-9]*.ipynb'))
LOOK = ROOT / 'build' / 'look'
WIDTH = 1200
SCALE = 0.75  # of the pictures: text of 14 pixels is still read well, at half the time and bytes

# What a page says about itself; everything that a person would see is looked at in the browser.
FINDINGS = r"""
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const words = (element) => element.textContent.trim().slice(0, 80);
  const prose = document.body.cloneNode(true);
  prose.querySelectorAll('pre, code, script, style, .formula').forEach((part) => part.remove());
  const style = getComputedStyle(document.body);
  const text = getComputedStyle(document.querySelector('p') || document.body);
  return {
    height: document.documentElement.scrollHeight,
    width: document.documentElement.scrollWidth,
    title: document.title,
    background: style.backgroundColor,
    ink: text.color,
    images: all('img').map((image) => ({
      name: image.alt || image.src.slice(0, 80), alt: image.alt, loaded: image.naturalWidth,
      drawn: image.closest('.jp-RenderedMarkdown') !== null})),
    tex: prose.textContent.match(/\$[^$\n]+\$|\\[a-z]+[{_]/g) || [],
    stderr: all('[data-mime-type="application/vnd.jupyter.stderr"]').map(words),
    raw: all('.jp-OutputArea-output pre').map((pre) => pre.textContent.match(
      /<Figure size.*|<\/?(div|table|span|svg|p)\b.*|Traceback \(most recent.*/)).filter((m) => m)
      .map((m) => m[0].slice(0, 80)),
    scrolls: all('main *').filter((element) => element.scrollWidth > element.clientWidth + 1
      && /auto|scroll/.test(getComputedStyle(element).overflowX)).map(words),
    answers: all('details').map((answer) => answer.open),
    links: all('a[href]').map((link) => link.getAttribute('href')),
    anchors: all('[id]').map((element) => element.id),
    elsewhere: all('script[src], link[href], img[src]').map((e) => e.src || e.href)
      .filter((address) => /^https?:/.test(address)),
  };
})()
"""


def luminance(color):
    """Relative luminance of a CSS color, as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r'\d+', color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


def complaints(found, theme):
    """Say in words what is wrong with a page."""
    said = [f'does not load: {i["name"]}' for i in found['images'] if not i['loaded']]
    drawn = [image for image in found['images'] if image['drawn']]  # plots have no words to give
    said += ['a figure without words for who cannot see it' for i in drawn if not i['alt']]
    said += [f'raw TeX: {tex}' for tex in found['tex']]
    said += [f'an error or a warning: {text}' for text in found['stderr']]
    said += [f'not meant to be read: {text}' for text in found['raw']]
    said += [f'wider than the window: {found["width"]} pixels'] * (found['width'] > WIDTH)
    said += [f'scrolls sideways: {text}' for text in found['scrolls']]
    said += ['an answer is open'] * sum(found['answers'])
    said += [f'fetched from elsewhere: {address}' for address in found['elsewhere']]
    said += [f'leads nowhere: {link}' for link in found['links'] if not leads(link, found)]
    light, ink = luminance(found['background']), luminance(found['ink'])
    if (light > 0.5) != (theme == 'light'):
        said.append(f'not {theme}: {found["background"]}')
    contrast = (max(light, ink) + 0.05) / (min(light, ink) + 0.05)
    if contrast < 7:  # WCAG's strictest grade
        said.append(f'text is hard to read: {found["ink"]} on {found["background"]}')
    return said


def leads(link, found):
    """Whether a link of a page in ``build/`` has something at its end; the web is not asked."""
    address = urlparse(link)
    if address.scheme:
        return address.scheme in ('https', 'mailto')
    if not address.path:
        return unquote(address.fragment) in found['anchors']
    file = ROOT / 'build' / unquote(address.path)
    if file.suffix == '.html':  # made of a chapter
        file = ROOT / 'notebooks' / f'{file.stem}.ipynb'
    return file.exists()


@pytest.fixture(scope='module')
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp('chromium'))
    yield browser
    browser.close()


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.stem[:2])
def test_a_chapter_looks_as_it_should(path, browser, tmp_path):
    nb = nbformat.read(path, as_version=4)
    file = tmp_path / f'{path.stem}.html'
    file.write_text(pages.page_of(nb, path.parent, path.stem), encoding='utf-8')
    browser.open(file.as_uri(), WIDTH)
    for theme in ('dark', 'light'):
        browser.prefer(theme)
        found, picture = browser.ask(FINDINGS), LOOK / f'{path.stem[:2]}-{theme}.png'
        said = complaints(found, theme)
        if said or theme == 'light':  # one of a whole page is a quarter of what it takes
            browser.picture(picture, found['height'], SCALE)
        assert said == []
    assert found['title'] == pages.title_of(nb)
    drawn = sum(c.source.count('](../img/') for c in nb.cells if c.cell_type == 'markdown')
    assert sum(image['drawn'] for image in found['images']) == drawn
    assert len(found['answers']) == sum(c.source.count('<details>') for c in nb.cells) > 0
    with Image.open(picture) as image:
        assert image.size == pytest.approx((WIDTH * SCALE, found['height'] * SCALE), abs=1)
        # In each part of the page there is something to see.
        for top in range(0, image.height - 600, 600):
            part = image.crop((0, top, image.width, top + 600)).convert('RGB')
            assert len(part.getcolors(10**6)) > 20, f'nothing to see from pixel {top} on: {picture}'


# What can be wrong, and what is then said.
WRONG = """# A chapter

Its first words. ![a figure](../img/no-such-figure.svg) ![](../img/lenet.svg) Take $k$ devices.
[More](99-no-chapter.ipynb)

<details open><summary>Answer</summary><p>42</p></details>
<div><script src="http://127.0.0.1:9/x.js"></script></div>"""
OUTPUTS = [
    new_output('error', ename='E', traceback=['E: too hot']),
    new_output('stream', name='stderr', text='Warning: old'),
    new_output('display_data', data={'text/plain': '<Figure size 800x300 with 2 Axes>'}),
    new_output('stream', text='<table><tr>1</tr></table>'),
    new_output('display_data', data={'text/html': f'<table><td>{"x" * 300}</td></table>'}),
]
SAID = f"""does not load: a figure
a figure without words for who cannot see it
raw TeX: $k$
an error or a warning: E: too hot
an error or a warning: Warning: old
not meant to be read: <Figure size 800x300 with 2 Axes>
not meant to be read: <table><tr>1</tr></table>
scrolls sideways: {'x' * 80}
an answer is open
fetched from elsewhere: http://127.0.0.1:9/x.js
leads nowhere: 99-no-chapter.html"""


def test_what_is_wrong_is_found(browser, tmp_path):
    file = tmp_path / 'page.html'
    nb = new_notebook(cells=[new_markdown_cell(WRONG), new_code_cell('1', outputs=OUTPUTS)])
    file.write_text(pages.page_of(nb, ROOT / 'notebooks', 'page'), encoding='utf-8')
    browser.open(file.as_uri(), WIDTH)
    assert complaints(browser.ask(FINDINGS), 'light') == SAID.splitlines()
    file.write_text('<style>body { background: #111111 } p { color: #777777 }</style><p>Words.</p>')
    browser.open(file.as_uri(), WIDTH)
    wrong, hard = complaints(browser.ask(FINDINGS), 'light')
    assert wrong == 'not light: rgb(17, 17, 17)' and hard.startswith('text is hard to read')
    browser.ask('document.querySelector("p").style.color = "#ffffff"')
    assert complaints(browser.ask(FINDINGS), 'light') == [wrong]


# JupyterLab finds ../img/ in its own way, and brings its own styles.
IN_LAB = """
(() => {
  const all = (selector) => [...document.querySelectorAll('.jp-NotebookPanel ' + selector)];
  const loaded = all('img').filter((image) => image.complete && image.naturalWidth);
  const counts = [all('.jp-RenderedMarkdown h2'), all('img'), loaded, all('mjx-container'),
    all('details[open]')].map((found) => found.length);
  return [...counts, document.body.dataset.jpThemeLight].join(' ');
})()
"""


def test_chapter_1_opens_in_jupyterlab(browser, tmp_path):
    nb = nbformat.read(CHAPTERS[0], as_version=4)
    text = '\n'.join(c.source for c in nb.cells if c.cell_type == 'markdown')
    images = text.count('](../img/') + sum('image/png' in str(c.get('outputs')) for c in nb.cells)
    headings, formulas = len(re.findall('^## ', text, re.M)), text.count('$$') // 2
    change = 'jupyterapp.commands.execute("apputils:change-theme", {theme: "JupyterLab Dark"})'
    with lab(tmp_path, CHAPTERS[0].name) as address:
        browser.open(address, 1400, 1800)
        for theme, light in (('light', 'true'), ('dark', 'false')):
            if theme == 'dark':
                browser.ask(f'{change}.then(() => true)')
            seen = f'{headings} {images} {images} {formulas} 0 {light}'
            try:
                browser.wait_for(f"{IN_LAB.strip()} === '{seen}'", seconds=90)
            finally:
                browser.picture(LOOK / f'01-lab-{theme}.png', 1800, SCALE)
