"""What `make lab` opens, in a real browser; pictures of it are left in ``build/look/``."""

import re
from importlib.util import find_spec

import nbformat
import pytest
from browser import lab
from checkouts import ROOT

CHAPTERS = sorted((ROOT / 'notebooks').glob('[0-9]*.ipynb'))
LOOK = ROOT / 'build' / 'look'
SCALE = 0.75  # of the pictures: text of 14 pixels is still read well, at half the bytes

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


@pytest.mark.slow  # 30 s
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
