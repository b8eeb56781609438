"""The published look: every chapter as a page in a real browser, light and dark.

Pictures of all pages are left in ``build/look/``: light, and dark where a check fails there.
"""

import re
from importlib.util import find_spec
from urllib.parse import unquote, urlparse

import nbformat
import pages
import pytest
from browser import lab
from checkouts import ROOT
from PIL import Image

CHAPTERS = sorted((ROOT / 'notebooks').glob('[0-9]*.ipynb'))
LOOK = ROOT / 'build' / 'look'
WIDTH = 1200
SCALE = 0.75  # of the pictures: text of 14 pixels is still read well, at half the time and bytes

# What is wrong with a page, and what else is asked of it.
FINDINGS = r"""
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const words = (element) => element.textContent.trim().slice(0, 80);
  const wrong = (what, found) => found.length ? [what + ': ' + found.join('; ')] : [];
  const prose = document.body.cloneNode(true), images = all('img');
  prose.querySelectorAll('pre, code, script, style, .formula').forEach((part) => part.remove());
  const drawn = images.filter((image) => image.closest('.jp-RenderedMarkdown'));
  const width = document.documentElement.scrollWidth;
  return {
    height: document.documentElement.scrollHeight,
    title: document.title,
    background: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.querySelector('p')).color,
    drawn: drawn.length,
    answers: all('details').length,
    links: all('a[href]').map((link) => link.getAttribute('href')),
    anchors: all('[id]').map((element) => element.id),
    wrong: [
      ...wrong('does not load', images.filter((i) => !i.naturalWidth).map((i) => i.alt || i.src)),
      ...wrong('no words for who cannot see it', drawn.filter((i) => !i.alt).map((i) => i.src)),
      ...wrong('raw TeX', prose.textContent.match(/\$[^$\n]+\$|\\[a-z]+[{_]/g) || []),
      ...wrong('a warning', all('[data-mime-type="application/vnd.jupyter.stderr"]').map(words)),
      ...wrong('not meant to be read', all('.jp-OutputArea-output pre').map((pre) =>
        pre.textContent.match(/<Figure size.*|<\/?(div|table|span|svg|p)\b.*|Traceback .*/))
        .filter((m) => m).map((m) => m[0].slice(0, 80))),
      ...wrong('scrolls sideways', all('main *').filter((e) => e.scrollWidth > e.clientWidth + 1
        && /auto|scroll/.test(getComputedStyle(e).overflowX)).map(words)),
      ...wrong('wider than the window', width > innerWidth ? [width] : []),
      ...wrong('an answer is open', all('details[open]').map(words)),
      ...wrong('fetched from elsewhere', all('script[src], link[href], img[src]')
        .map((e) => e.src || e.href).filter((address) => /^https?:/.test(address))),
    ],
  };
})()
"""


def luminance(color):
    """Relative luminance of a CSS color, as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r'\d+', color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear))


def contrast(one, other):
    """Of two luminances, by WCAG 2, from 1 to 21."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def leads(link, page):
    """Whether the target of a page's link exists; links to the web are not followed."""
    address = urlparse(link)
    if address.scheme:
        return address.scheme in ('https', 'mailto')
    if not address.path:
        return unquote(address.fragment) in page['anchors']
    file = (ROOT / 'build' / unquote(address.path)).resolve()  # `build` need not be there yet
    if file.suffix == '.html':  # made of a chapter
        file = ROOT / 'notebooks' / f'{file.stem}.ipynb'
    return file.exists()


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda p: p.stem[:2])
def test_a_chapter_looks_as_it_should(path, browser, tmp_path):
    nb = nbformat.read(path, as_version=4)
    file = tmp_path / f'{path.stem}.html'
    file.write_text(pages.page_of(nb, path.parent, path.stem), encoding='utf-8')
    browser.open(file.as_uri(), WIDTH)
    for theme in ('dark', 'light'):
        browser.prefer(theme)
        page, picture = browser.ask(FINDINGS), LOOK / f'{path.stem[:2]}-{theme}.png'
        wrong = page['wrong'] + [link for link in page['links'] if not leads(link, page)]
        if wrong or theme == 'light':  # one of a whole page is a quarter of what it takes
            browser.picture(picture, page['height'], SCALE)
        assert wrong == []
        light, ink = luminance(page['background']), luminance(page['ink'])
        assert (light > 0.5) == (theme == 'light'), page['background']
        assert contrast(light, ink) > 7, page['ink']  # WCAG's strictest grade
    assert page['title'] == pages.title_of(nb)
    drawn = sum(c.source.count('](../img/') for c in nb.cells if c.cell_type == 'markdown')
    assert page['drawn'] == drawn
    assert page['answers'] == sum(c.source.count('<details>') for c in nb.cells) > 0
    with Image.open(picture) as image:
        assert image.size == pytest.approx((WIDTH * SCALE, page['height'] * SCALE), abs=1)
        # In each part of the page there is something to see.
        for top in range(0, image.height - 600, 600):
            part = image.crop((0, top, image.width, top + 600)).convert('RGB')
            assert len(part.getcolors(10**6)) > 20, f'nothing to see from pixel {top} on: {picture}'


# What the first screen of JupyterLab shows.
SCREEN = """
(() => {
  const lab = window.jupyterapp, all = (selector) => [...document.querySelectorAll(selector)];
  const {model, sessionContext} = lab.shell.currentWidget.context;
  const shown = (element) => element.getBoundingClientRect().width > 0;
  return {
    idle: (sessionContext.session?.kernel?.status ?? '') === 'idle',
    beside: all('#jp-right-stack').filter(shown).length,
    cut: all('.jp-CodeCell .cm-scroller').filter((e) => e.scrollWidth > e.clientWidth + 1).length,
    rest: [model.dirty, all('.Toastify__toast').map((toast) => toast.textContent),
      all('.jp-DirListing-itemText').filter(shown).map(
        (name) => [name.textContent, name.scrollWidth <= name.clientWidth]),
      all('.jp-DirListing-headerItem').filter(shown).map((head) => head.textContent.trim())],
  };
})()
""".strip()
# And of the chapter: JupyterLab finds ../img/ in its own way, and brings its own styles.
IN_LAB = """
(() => {
  const all = (selector) => [...document.querySelectorAll('.jp-NotebookPanel ' + selector)];
  const loaded = all('img').filter((image) => image.complete && image.naturalWidth);
  const counts = [all('.jp-RenderedMarkdown h2'), all('img'), loaded, all('mjx-container'),
    all('details[open]')].map((found) => found.length);
  return [...counts, document.body.dataset.jpThemeLight].join(' ');
})()
""".strip()


@pytest.mark.skipif(not (ROOT / '.venv').exists(), reason="needs the environment of 'make setup'")
def test_make_lab_opens_the_first_chapter_on_a_clean_screen_light_and_dark(browser, tmp_path):
    path = CHAPTERS[0 if find_spec('mxnet') else 4]
    nb = nbformat.read(path, as_version=4)
    text = '\n'.join(c.source for c in nb.cells if c.cell_type == 'markdown')
    images = text.count('](../img/') + sum('image/png' in str(c.get('outputs')) for c in nb.cells)
    headings, formulas = len(re.findall('^## ', text, re.M)), text.count('$$') // 2
    contents = (
        "[...document.querySelectorAll('.jp-tocItem-heading')].filter((e) => e.checkVisibility())"
    )
    linked = "document.querySelector('.jp-MarkdownOutput a[href*=exercises]')"
    with lab(tmp_path, path.name) as address:
        assert f'/lab/tree/notebooks/{path.name}?' in address
        browser.open(address, 1280, 900)
        browser.wait_for(f'[{SCREEN}].every((seen) => seen.idle)', 240)
        seen = browser.ask(SCREEN)
        browser.picture(LOOK / 'first-screen.png', 900)
        assert seen['rest'] == [False, [], [[path.name, True]], ['Name']]  # no pop-up, none cut off
        assert (seen['beside'], seen['cut']) == (0, 0)  # no code is cut off either
        tabs = "[...document.querySelectorAll('.jp-SideBar .lm-TabBar-tab')].map((t) => t.title)"
        assert len(browser.ask(tabs)) > 5 and 'Cluster' not in str(browser.ask(tabs))
        browser.ask('jupyterapp.commands.execute("toc:show-panel").then(() => true)')
        browser.wait_for(f'{contents}.length > 10')
        for theme, light in (('light', 'true'), ('dark', 'false')):
            if theme == 'dark':
                browser.prefer('dark')  # the system's setting is followed
            seen = f'{headings} {images} {images} {formulas} 0 {light}'
            try:
                browser.wait_for(f"{IN_LAB} === '{seen}'", seconds=90)
            finally:
                browser.picture(LOOK / f'01-lab-{theme}.png', 1800, SCALE)
        browser.ask(f'{linked}.click()')
        where = 'jupyterapp.shell.currentWidget.context.path'
        browser.wait_for(f'{where} === "exercises/{path.name}"')
