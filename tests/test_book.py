"""The book: every page of the site in a real browser, light and dark, wide and on a phone."""

import functools
import html
import http.server
import importlib
import re
import threading
from urllib.parse import unquote, urldefrag, urlparse

import pytest
from checkouts import ROOT, call
from nbformat import NO_CONVERT, read

SITE = ROOT / 'build/book/site'
POLICY = "default-src 'self' 'unsafe-inline' data:"  # a request to another host is an error
FINDINGS = r"""(() => {
  const said = [...window.said], canvas = document.createElement('canvas').getContext('2d');
  const known = {};
  const rgba = (color) => known[color] ??= (() => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  })();
  const over = (top, below) => top.slice(0, 3).map((c, i) => c * top[3] + below[i] * (1 - top[3]));
  const behind = (element) => {
    if (!element) return [255, 255, 255];
    const color = rgba(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color : over(color, behind(element.parentElement));
  };
  const light = (color) => color.slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text; (text = texts.nextNode());) {
    const element = text.parentElement, words = text.textContent.trim().slice(0, 40);
    const seen = {opacityProperty: true, visibilityProperty: true};
    if (!words || element.closest('script, style, svg') || !element.checkVisibility(seen)) continue;
    const back = behind(element), ink = over(rgba(getComputedStyle(element).color), back);
    const [low, high] = [light(ink), light(back)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) said.push(`contrast ${contrast.toFixed(2)}: ${words}`);
  }
  const all = (selector) => [...document.querySelectorAll(selector)];
  const levels = all('article :is(h1, h2, h3, h4, h5, h6)').map((h) => Number(h.tagName[1]));
  levels.forEach((level, i) => {
    if (i ? level > levels[i - 1] + 1 || level === 1 : level !== 1) said.push('heading ' + i);
  });
  for (const image of all('img')) {
    if (!image.alt) said.push('no words for ' + image.src);
    if (image.complete && !image.naturalWidth) said.push('no picture ' + image.src);
  }
  for (const box of all('div.output, div.cell_output')) {
    if (!box.textContent.trim() && !box.querySelector('img')) said.push('an empty box');
  }
  for (const box of all('article :is(div, pre, table, math)')) {
    const scrolls = /auto|scroll/.test(getComputedStyle(box).overflowX);
    if (scrolls && box.scrollWidth > box.clientWidth && box.tabIndex) said.push('no key scrolls');
  }
  for (const head of all('th')) if (!head.textContent.trim()) said.push('a column of no name');
  const width = document.documentElement.scrollWidth;
  if (width > innerWidth) said.push(`wider than the window: ${width}`);
  return [...new Set(said)];
})()"""

EDGES = """[...document.querySelectorAll(`.bd-article section >
  :is(p, h2, figure), figure > img, figcaption > p, div.cell_input, div.cell_output`)]
  .map((e) => e.getBoundingClientRect()).filter((box) => box.width).map((box) => box.left)"""
RIGHT = """['p', 'figure', 'div.cell > div.cell_input'].map((which) => Math.max(
  ...[...document.querySelectorAll('.bd-article section > ' + which)]
    .map((e) => e.getBoundingClientRect().right)))"""


class Handler(http.server.SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header('Content-Security-Policy', POLICY)
        super().end_headers()

    def log_message(self, *words):
        pass


@pytest.fixture(scope='module')
def site():
    done = call(ROOT, 'make', 'book', timeout=600, BOOK_URL='https://book.example/course/')
    assert done.returncode == 0, done.stderr
    handler = functools.partial(Handler, directory=SITE)
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{server.server_port}/'
        server.shutdown()


def pages():
    paths = (path.relative_to(SITE).as_posix() for path in SITE.rglob('*.html'))
    return sorted(page for page in paths if not page.startswith('_'))  # the theme's


@pytest.mark.slow  # it makes the book, and its environment the first time
def test_every_page_is_whole_and_can_be_read_light_and_dark_wide_and_narrow(site, browser):
    wrong = []
    for page in pages():
        for width in (1280, 390):
            browser.open(site + page, width)
            for theme in ('light', 'dark'):
                browser.prefer(theme)
                browser.wait_for(f'document.documentElement.dataset.theme === "{theme}"')
                wrong += [f'{page} {width} {theme}: {said}' for said in browser.ask(FINDINGS)]
    assert len(pages()) > 30 and not wrong, '\n'.join(wrong)
    files = [path for path in SITE.rglob('*') if path.is_file() and path.suffix != '.pdf']
    assert sum(path.stat().st_size for path in files) < 10e6
    browser.call('Network.setCacheDisabled', cacheDisabled=True)  # what is kept counts as 0 bytes
    browser.open(site + 'index.html', 1280)
    loaded = 'performance.getEntries().reduce((sum, e) => sum + (e.decodedBodySize || 0), 0)'
    assert 1e5 < browser.ask(loaded) < 1e6


@pytest.mark.slow
def test_every_link_within_the_site_leads_somewhere(site):
    texts = {page: (SITE / page).read_text('utf8') for page in pages()}
    ids = {page: set(re.findall(r'\bid="([^"]*)"', text)) for page, text in texts.items()}
    wrong = []
    for page, text in texts.items():
        for link in set(re.findall(r'<(?:a|img|link|script)\b[^>]*?(?:href|src)="([^"]*)"', text)):
            link = html.unescape(link)
            if urlparse(link).scheme:
                continue
            path, anchor = urldefrag(unquote(link.split('?')[0]))
            file = (SITE / page).parent.joinpath(path).resolve() if path else SITE / page
            name = file.relative_to(SITE).as_posix() if file.is_relative_to(SITE) else ''
            anchors = ids.get(name, set()) | {''}
            if not file.is_file() or (name in ids and anchor not in anchors):
                wrong.append(f'{page}: {link}')
    assert not wrong, '\n'.join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize('width', [390, 768, 1024, 1280, 1440])
def test_all_begins_at_one_left_edge_and_figures_enlarge(site, browser, width):
    browser.open(site + 'notebooks/01-multiple-gpus-scratch.html', width)
    edges = browser.ask(EDGES)
    assert len(edges) > 50 and max(edges) - min(edges) <= 2
    right = browser.ask(RIGHT)
    assert max(right) - min(right) <= 2
    assert browser.ask('document.documentElement.scrollWidth') <= width
    browser.ask('document.querySelector(".enlarge").focus()')
    browser.press('Enter', windowsVirtualKeyCode=13, text='\r')
    browser.wait_for('document.querySelector("dialog.enlarged").open')
    wide = browser.ask('document.querySelector("dialog.enlarged img").width')
    assert wide >= 1.5 * width  # of 760 in the drawing, where labels are 13
    browser.press('Escape', windowsVirtualKeyCode=27)
    browser.wait_for('!document.querySelector("dialog.enlarged").open')


@pytest.mark.slow
def test_a_page_says_where_it_is_and_a_browser_keeps_what_was_read(site, browser):
    page = 'notebooks/03-faster-allreduce.html'
    address = f'https://book.example/course/{page}'
    browser.open(site + page, 1280)
    says = """Object.fromEntries([...document.querySelectorAll('meta[property]')]
      .map((m) => [m.getAttribute('property'), m.content]))"""
    assert browser.ask(says)['og:url'] == address
    assert browser.ask(says)['og:image'] == 'https://book.example/course/_static/card.png'
    assert browser.ask('document.querySelector("link[rel=canonical]").href') == address
    beside = '[...document.querySelectorAll("nav.beside a")].map((a) => a.href.slice(-12, -5))'
    assert browser.ask(beside) == ['s-gluon', 'achines']
    assert re.search(r'Version [\d.]+', browser.ask('document.querySelector(".about").textContent'))
    read = '[...document.querySelectorAll(".bd-links .read")].length'
    assert browser.ask(read) == 0
    browser.ask('document.querySelector(".prev-next-footer").scrollIntoView()')
    browser.wait_for(f'{read} === 1')
    browser.open(site + 'index.html', 1280)
    browser.wait_for(f'{read} === 1')


@pytest.mark.slow
def test_search_and_keyboard(site, browser):
    first = {
        'allreduce': '01-multiple-gpus-scratch.html#summing-across-devices-allreduce',
        'bucket': '03-faster-allreduce.html#many-small-gradients-buckets',
        'ring allreduce': '03-faster-allreduce.html#figure-allreduce-ring',
        'all-reduce ring': '03-faster-allreduce.html#figure-allreduce-ring',
        'resume': '04-multiple-machines.html#resume-bit-for-bit',
    }
    for word, section in first.items():
        browser.open(site + 'index.html', 1280)
        browser.press('k', windowsVirtualKeyCode=75, modifiers=2)
        browser.wait_for('document.activeElement.matches("input[type=search]")')
        browser.call('Input.insertText', text=word)
        browser.wait_for(f'document.activeElement.value === "{word}"')
        browser.press('Enter', windowsVirtualKeyCode=13, text='\r')
        browser.wait_for('location.pathname === "/search.html"')
        browser.wait_for('document.querySelectorAll("ul.search > li a").length')
        browser.wait_for('!document.querySelector("#search-progress")?.textContent.trim()')
        shown = browser.ask('document.querySelector("ul.search > li a").getAttribute("href")')
        assert shown.split('?')[0].split('#')[0].endswith(section.split('#')[0]), shown
        assert shown.endswith(section.split('#')[1]), shown
    browser.open(site + 'notebooks/03-faster-allreduce.html', 1280)
    focused = []
    for _ in range(60):
        browser.press('Tab', windowsVirtualKeyCode=9)
        focused.append(
            browser.ask("""(() => { const e = document.activeElement, s = getComputedStyle(e);
            return [e.textContent.trim().slice(0, 30), e.checkVisibility(),
              s.outlineStyle !== 'none' || s.boxShadow !== 'none']; })()""")
        )
    assert focused[0][0] == 'Skip to main content' and len({words for words, *_ in focused}) > 30
    assert not [words for words, seen, marked in focused if not (seen and marked)]


def test_the_book_has_every_chapter_and_page_and_each_term_is_in_a_chapter():
    index = (ROOT / 'book/index.md').read_text('utf8')
    for path in [*ROOT.glob('notebooks/[0-9]*.ipynb'), *ROOT.glob('book/[!i]*.md')]:
        assert path.name in index or f'\n{path.stem}\n' in index, path
    chapters = [read(path, NO_CONVERT) for path in ROOT.glob('notebooks/*.ipynb')]
    prose = ' '.join(c.source for nb in chapters for c in nb.cells if c.cell_type == 'markdown')
    glossary = (ROOT / 'book/glossary.md').read_text('utf8').partition('```{glossary}')[2]
    terms = re.findall(r'^(\w.*)\n  ', glossary, re.MULTILINE)
    assert len(terms) > 30 and not [t for t in terms if t.lower() not in prose.lower()]
    assert terms == sorted(terms, key=str.lower)
    for path in ROOT.glob('book/*.md'):
        for link in re.findall(r'\]\((?!https?:)([^)#]+)', path.read_text('utf8')):
            assert link.startswith('reference/') or (path.parent / link).exists(), f'{path}: {link}'


def test_its_contents_name_what_is_there_and_the_reference_has_each_room(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / 'book')
    reference = importlib.import_module('reference')
    (tmp_path / 'mgpu_helpers').symlink_to(ROOT / 'mgpu_helpers')
    reference.write(tmp_path)
    for file in (tmp_path / 'reference').iterdir():
        text = file.read_text('utf8')
        assert '.. py:' in text.partition('currentmodule')[2] and 'ClassVar' not in text, file
    named = ''.join((ROOT / f'book/{page}.md').read_text('utf8') for page in ('index', 'reference'))
    entries = re.findall(r'^(?:[^`\n]*<)?([\w/-]+)>?$', named, re.MULTILINE)
    assert {'notebooks/*', 'reference/*'} <= set(named.split())
    students = {f'exercises/student/{path.stem}' for path in ROOT.glob('exercises/student/*.ipynb')}
    assert students <= set(entries)
    places = [ROOT / 'book', ROOT, tmp_path]
    existing = [e for e in entries if any([*p.glob(f'{e}.*')] for p in places)]
    assert existing == entries
    public = re.findall(
        r'^from \. import (\w+)', (ROOT / 'mgpu_helpers/__init__.pyi').read_text(), re.M
    )
    inner = {'arguments', 'runtime'}  # called by the package itself, and named by errors
    assert set(public) - inner <= {*reference.ROOMS}
