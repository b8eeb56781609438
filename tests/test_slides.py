"""The slides in a real browser, as a lecturer has them on a projector: what the plan lists."""

import base64
import re

import nbformat
import pytest
import slides
from browser import contrast, luminance
from checkouts import ROOT
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from run_notebooks import ChapterError
from teaching_plan import PLAN

CHAPTERS = sorted((ROOT / 'notebooks').glob('[0-9]*.ipynb'))
LOOK = ROOT / 'build' / 'look'
# Every slide, shown in turn: what is on it, and what sticks out of it or of what it stands in.
SLIDES = """
[...document.querySelectorAll('section')].map((slide, i) => {
  location.replace('#' + (i + 1));
  document.querySelectorAll('section').forEach((one) => one.classList.toggle('now', one === slide));
  const rest = [...slide.children].filter((part) => !/^(H1|H2|FOOTER)$/.test(part.tagName));
  const end = slide.querySelector('footer').getBoundingClientRect().top + 1;
  const size = (part) => parseFloat(getComputedStyle(part).fontSize);
  return {
    words: slide.textContent.replace(/\\s+/g, ''),
    top: slide.querySelector('h1, h2').getBoundingClientRect().top,
    size: [slide.offsetWidth, slide.offsetHeight],
    empty: !rest.length || rest.some((e) => !e.textContent.trim() && !e.querySelector('img, svg')),
    out: [slide, ...rest, ...slide.querySelectorAll('h2, pre, table, img, svg')].filter((part) =>
      part.scrollHeight > part.clientHeight + 1 && part.clientHeight
      || part.scrollWidth > part.clientWidth + 1 && part.clientWidth
      || part.getBoundingClientRect().bottom > end && part !== slide
      || part.getBoundingClientRect().right > 1280).map((part) => part.outerHTML.slice(0, 200)),
    small: [...slide.querySelectorAll('p, li, pre, td')].map((p) => [size(p), p.textContent])
      .filter(([size, text]) => text && size < 18),
    figures: [...slide.querySelectorAll('img')].map((image) => {
      const aspect = image.naturalWidth / image.naturalHeight;
      const width = Math.min(image.clientWidth, image.clientHeight * aspect);
      // Drawings are 760 wide, with letters from 13 on.
      return [image.naturalWidth > 0, image.src.startsWith('data:'), width > 700];
    }),
  };
})
"""


def shown(browser):
    return browser.ask('[document.querySelector(".now").id, location.hash].join()')


def made(*options, build):
    """Run the command; return the one file that it has written."""
    done = CliRunner().invoke(slides.main, [*options, '--build', str(build)])
    assert done.exit_code == 0, done.output
    (file,) = build.iterdir()
    return file


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda path: path.stem[:2])
def test_each_section_is_asked_then_answered_and_each_slide_fits(path, browser, tmp_path):
    number = int(path.stem[:2])
    file = made('--chapter', str(number), build=tmp_path)
    browser.open(file.as_uri(), 1280, 720)
    browser.resize(720)
    on_screen = browser.ask(SLIDES)
    for slide in on_screen:
        assert not slide['empty'] and not slide['out'] and not slide['small'], slide
        assert slide['size'] == [1280, 720] and all(map(all, slide['figures'])), slide
    assert len({slide['top'] for slide in on_screen[1:]}) == 1  # titles do not jump
    words = [slide['words'] for slide in on_screen]
    at = 0
    for section in PLAN['chapters'][number]['sections']:
        for part in ('ask', 'answer') if 'ask' in section and 'task' not in section else ():
            (at,) = (i for i in range(at, len(words)) if plain(section[part]) in words[i])
    assert browser.ask('said.join()') == ''
    # Nothing but what is in the file: its policy refuses the rest.
    html = file.read_text('utf8')
    assert not re.search(r'<link|@import|url\(|(?:src|srcset)="(?!data:)', html)
    # The text of each section is in the notes, and no hidden answer.
    notes = browser.ask('[...document.querySelectorAll("aside")].map((a) => a.textContent).join()')
    text = '\n'.join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == 'markdown')
    for bold in re.findall(r'\*\*([\w ,;]+)[.?:]?\*\*', text):
        assert bold in notes, bold
    assert not browser.ask('document.querySelectorAll("aside details").length')


def plain(markdown):
    return re.sub(r'[*`\s]+', '', markdown)


@pytest.fixture(scope='module')
def lecture(tmp_path_factory):
    """A chapter's slides, made by the command, for the tests of navigation."""
    return made('--chapter', '3', build=tmp_path_factory.mktemp('slides'))


def test_keys_hash_and_themes(lecture, browser):
    browser.open(lecture.as_uri(), 1280, 720)
    last = browser.ask('document.querySelectorAll("section").length')
    for keys, number in (
        ([], 1),
        (['ArrowRight', 'PageDown', ' '], 4),
        (['ArrowLeft', 'PageUp'], 2),
        (['End', 'ArrowRight'], last),
        (['Home', 'ArrowUp'], 1),
    ):
        for key in keys:
            browser.press(key)
        browser.wait_for(f'document.querySelector(".now").id === "{number}"')
        assert number == 1 or shown(browser) == f'{number},#{number}'
    browser.ask('location.hash = "7"')
    browser.wait_for('document.querySelector(".now").id === "7"')
    assert browser.ask('document.querySelector(".now nav").textContent.trim()') == f'‹7 / {last}›'
    visible = '[...document.querySelectorAll("{}")].filter((e) => e.offsetHeight).length'
    assert browser.ask(visible.format('section')) == 1 and not browser.ask(visible.format('aside'))
    browser.press('s')
    assert browser.ask(visible.format('aside')) == 1
    browser.press('s')
    for theme in ('dark', 'light'):
        browser.prefer(theme)
        browser.picture(LOOK / f'slides-{theme}.png', 720)
        style = 'getComputedStyle(document.body)'
        paper, ink = browser.ask(f'[{style}.backgroundColor, {style}.color]')
        light, dark = luminance(paper), luminance(ink)
        assert contrast(light, dark) > 7 and (light > dark) == (theme == 'light')
    assert browser.ask('said.join()') == ''


def test_a_page_on_paper_for_each_slide(lecture, browser):
    browser.open(lecture.as_uri(), 1280, 720)
    number = browser.ask('document.querySelectorAll("section").length')
    options = {'preferCSSPageSize': True, 'printBackground': True}
    pdf = base64.b64decode(browser.call('Page.printToPDF', **options)['data'])
    assert len(re.findall(rb'/Type\s*/Page\b(?!s)', pdf)) == number
    assert set(re.findall(rb'/MediaBox \[([^]]*)\]', pdf)) == {b'0 0 960 540'}  # points: 16 to 9


def code(source, text='', *tags):
    outputs = [new_output('stream', text=text)] if text else []
    return new_code_cell(source, outputs=outputs, metadata={'tags': list(tags)})


def chapter_with(tmp_path, *cells, **entry):
    """A chapter of one section, and a plan that asks one question there."""
    start = [new_markdown_cell('# T'), new_markdown_cell('## A\n\nText.'), *cells]
    nbformat.write(new_notebook(cells=start), tmp_path / '01-t.ipynb')
    plan = {'sections': [{'section': 'A', 'ask': 'Why?', 'answer': 'So.'} | entry]}
    return slides.Chapter(tmp_path / '01-t.ipynb', plan, 'What?')


def test_what_is_shown_is_what_the_plan_names(tmp_path):
    text, long = new_markdown_cell, '\n'.join(f'print({i})' for i in range(30))
    figure = '![f](../img/allreduce.svg)'
    asked = (['Why?'], [])
    for cells, entry, expected in (
        ([code('f()', 'out')], {'cell': 'f()'}, [asked, (['So.'], ['code', 'output'])]),
        ([code('f()', 'out', 'mine')], {'cell': 'mine'}, [asked, (['So.'], ['code', 'output'])]),
        ([code(long, 'out')], {'cell': 'print(3)\n'}, [asked, (['So.'], ['output'])]),
        ([code(long)], {'cell': 'print(3)\n'}, [asked, (['So.'], ['code'])]),
        ([text(f'No.\n\nYes, x.\n\n{figure}')], {'cell': 'x.'}, [asked, (['So.'], ['text'])]),
        ([text('No.\n\n|a|b|\n|-|-|\n|c|d|')], {'cell': '|c|'}, [asked, (['So.'], ['table'])]),
        ([text(figure), code('f()')], {'show': ['allreduce.svg', 'f()'], 'cell': 'f()'},
         [([], ['figure']), (['Why?'], ['code']), (['So.'], ['code'])]),
        ([], {}, [asked, (['So.'], [])]),
    ):  # fmt: skip
        found = chapter_with(tmp_path, *cells, **entry).slides_of('A')
        assert [(s['words'], [b['kind'] for b in s['blocks']]) for s in found] == expected, cells
    for entry, said in (({'cell': 'gone'}, "'A': 0 cells have 'gone'"), ({}, "no section 'B'")):
        chapter = chapter_with(tmp_path, code('f()'), **entry)
        with pytest.raises(ChapterError, match=re.escape(said)):
            chapter.slides_of('A' if entry else 'B')


def test_a_session_of_the_plan(browser, tmp_path):
    file = made('--session', 'five weeks 1', build=tmp_path)
    browser.open(file.as_uri(), 1280, 720)
    browser.resize(720)
    shown = browser.ask(SLIDES)
    assert not [s for s in shown if s['empty'] or s['out'] or s['small']]
    assert 30 <= len(shown) <= 45
    words = [slide['words'] for slide in shown]
    test = [i for i, text in enumerate(words) if 'Theentrytest' in text]
    for key, places in (('ask', test[:2]), ('answer', test[2:])):
        for question in PLAN['entry_test']:
            assert any(plain(question[key]) in words[i] for i in places), question[key]
    (session, *_) = PLAN['plans']['five weeks']
    planned = [
        (part['chapter'], name) for part in session['parts'] for name in part.get('sections', [])
    ]
    asks = {(n, s['section']): s for n, c in PLAN['chapters'].items() for s in c['sections']}
    at = [
        next(i for i, text in enumerate(words) if plain(asks[place]['ask']) in text)
        for place in planned
        if 'ask' in asks.get(place, {})
    ]
    assert at == sorted(at) and words[-1].startswith('Athome')
    for wrong in ('--session', 'six weeks 1'), ('--chapter', '99'):
        done = CliRunner().invoke(slides.main, [*wrong, '--build', str(tmp_path)])
        assert done.exit_code == 1 and f"there is no {wrong[0][2:]} '{wrong[1]}'" in done.output
