"""What `make lab` shows first, in a real browser: a clean chapter, its contents, no pop-up."""

import sys
from pathlib import Path

import pytest
from browser import Browser, lab
from checkouts import ROOT

CHAPTER = '01-multiple-gpus-scratch.ipynb'
LAYOUT = ROOT / 'tools/lab/default-37a8.jupyterlab-workspace'
OURS = Path(sys.prefix) / 'share/jupyter/lab/settings/overrides.json'
SEEN = """
(() => {
  const lab = window.jupyterapp, all = (selector) => [...document.querySelectorAll(selector)];
  const {model, sessionContext} = lab.shell.currentWidget.context;
  const shown = (element) => element.getBoundingClientRect().width > 0;
  return {
    idle: (sessionContext.session?.kernel?.status ?? '') === 'idle',
    dirty: model.dirty,
    toasts: all('.Toastify__toast').map((toast) => toast.textContent),
    names: all('.jp-DirListing-itemText').filter(shown).map(
      (name) => [name.textContent, name.scrollWidth <= name.clientWidth]),
    columns: all('.jp-DirListing-headerItem').filter(shown).map((head) => head.textContent.trim()),
    contents: all('.jp-TableOfContents-content .jp-tocItem-heading').filter(shown).length,
  };
})()
"""


def test_the_first_screen(tmp_path):
    if not OURS.exists():
        pytest.skip('this environment is not of `make setup`')
    (tmp_path / 'profile').mkdir()
    with lab(tmp_path, CHAPTER, ours={}, layout=LAYOUT) as address:
        browser = Browser(tmp_path / 'profile')
        try:
            browser.open(address, width=1440, height=900)
            browser.wait_for(
                f'[{SEEN.strip()}].every((seen) => seen.idle && seen.contents > 0)', 240
            )
            seen = browser.ask(SEEN)
            browser.picture(ROOT / 'build/look/first-screen.png', 900)
        finally:
            browser.close()
    assert not seen['dirty'] and not seen['toasts']
    assert seen['names'] == [[CHAPTER, True]] and seen['columns'] == ['Name']
    assert seen['contents'] > 10
