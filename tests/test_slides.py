"""The slides: all chapters in a real browser, as a lecturer has them on a projector."""

import base64
import re

import nbformat
import pages
import pytest
import slides
from checkouts import ROOT
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from slide_figures import cut
from test_look import contrast, luminance

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
    heading: slide.dataset.section,
    size: [slide.offsetWidth, slide.offsetHeight],
    empty: !rest.length || rest.some((e) => !e.textContent.trim() && !e.querySelector('img, svg')),
    out: [slide, ...rest, ...slide.querySelectorAll('h2, pre, table, img, svg')].filter((part) =>
      part.scrollHeight > part.clientHeight + 1 && part.clientHeight
      || part.scrollWidth > part.clientWidth + 1 && part.clientWidth
      || part.getBoundingClientRect().bottom > end && part !== slide
      || part.getBoundingClientRect().right > 1280).map((part) => part.outerHTML.slice(0, 200)),
    small: rest.filter((part) => part.textContent && size(part) < 18).map((p) => p.outerHTML),
    figures: [...slide.querySelectorAll('img')].map((image) => {
      const aspect = image.naturalWidth / image.naturalHeight;
      const width = Math.min(image.clientWidth, image.clientHeight * aspect);
      // Drawings are 760 wide, with letters from 13 on: 17 here. A tall one fills the height.
      return [image.naturalWidth > 0, image.src.startsWith('data:'),
        width > 970 || width / aspect > 590];
    }),
  };
})
"""


def shown(browser):
    return browser.ask('[document.querySelector(".now").id, location.hash].join()')


@pytest.mark.parametrize('path', CHAPTERS, ids=lambda path: path.stem[:2])
def test_every_section_has_slides_and_each_slide_fits(path, browser, tmp_path):
    nb, file = nbformat.read(path, as_version=4), tmp_path / f'{path.stem}.html'
    texts = [cell.source for cell in nb.cells if cell.cell_type == 'markdown']
    html, number = slides.page_of(nb, path.parent, path.stem)
    file.write_text(html, encoding='utf-8')
    browser.open(file.as_uri(), 1280, 720)
    browser.resize(720)
    on_screen = browser.ask(SLIDES)
    for slide in on_screen:
        assert not slide['empty'] and not slide['out'] and not slide['small'], slide
        assert slide['size'] == [1280, 720] and all(map(all, slide['figures'])), slide
    text = '\n'.join(texts)
    wanted = [re.sub('[`*]', '', h) for h in re.findall('^##? (.+)', text, re.MULTILINE)]
    headings = [slide['heading'].strip() for slide in on_screen]
    assert list(dict.fromkeys(headings)) == wanted and len(on_screen) == number
    drawn = re.findall(r'^!\[.*', text, re.MULTILINE)
    data = [o.get('data', {}) for c in nb.cells for o in c.get('outputs', [])]
    drawn += [f'![](data:image/png;base64,{d["image/png"]})' for d in data if 'image/png' in d]
    parts = [part for figure in drawn for part in cut(figure, path.parent)]  # tall ones: two
    assert sum(len(slide['figures']) for slide in on_screen) == len(parts)
    assert browser.ask('said.join()') == ''
    # Nothing but what is in the file: its policy refuses the rest.
    assert not re.search(r'<link|@import|url\(|(?:src|srcset)="(?!data:)', html)
    # The notes have all of the text, and answers that wait for a click.
    asides = '[...document.querySelectorAll("aside")].map((a) => a.textContent).join(" ")'
    notes = browser.ask(asides)
    for bold in re.findall(r'\*\*([\w ,;]+)[.?:]?\*\*', text):
        assert bold in notes, bold
    hidden = browser.ask('document.querySelectorAll("aside details:not([open])").length')
    assert hidden == text.count('<details>')


@pytest.fixture(scope='module')
def lecture(tmp_path_factory):
    """A chapter's slides, made by the command, for the tests of navigation."""
    build = tmp_path_factory.mktemp('slides')
    done = CliRunner().invoke(slides.main, ['--chapter', '3', '--build', str(build)])
    assert done.exit_code == 0, done.output
    (file,) = build.iterdir()
    assert re.fullmatch(rf'03-\S+  \d+ slides: {file}\n', done.output)
    return file


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


def of(*cells):
    """The slides of a chapter of one section with these cells: words, and kinds of blocks."""
    start = new_markdown_cell('# T\n\n*1 of 8*\n\nWhy?\n\n**So.** Yes.\n')
    nb = new_notebook(cells=[start, new_markdown_cell('## A\n\nPlain first.'), *cells])
    nb.metadata['title'] = 'T'
    made = slides.slides_of(nb, ROOT / 'notebooks')[2:]
    return [(slide['words'], [block['kind'] for block in slide['blocks']]) for slide in made]


def code(source, text='', *tags):
    outputs = [new_output('stream', text=text)] if text else []
    return new_code_cell(source, outputs=outputs, metadata={'tags': list(tags)})


def test_what_is_shown_follows_from_the_notebook():
    text, long = new_markdown_cell, '\n'.join(f'print({i})' for i in range(30))
    taught, figure = '#@save\ndef f():\n    pass', '![f](../img/allreduce.svg)'
    plain = (['Plain first.'], ['output'])
    for cells, expected in (
        ([], [(['Plain first.'], [])]),
        ([code('f()', 'out')], [plain]),
        ([text('No. **A b c d e f g.** No.')], [(['**A b c d e f g.**'], [])]),
        ([text('**Run in.** Goes on. No.')], [(['**Run in.** Goes on.'], [])]),
        ([text(f'Look.\n\n{figure}')], [(['Look.'], ['figure'])]),
        ([text('|a|b|\n|-|-|\n|c|d|')], [(['Plain first.'], ['table'])]),
        ([code(taught)], [(['Plain first.'], ['code'])]),
        ([code('%%px --local\n' + taught)], [(['Plain first.'], ['code'])]),
        ([code('f()', '', 'slide')], [(['Plain first.'], ['code'])]),
        ([code('f()', 'out', 'skip-slide')], [(['Plain first.'], [])]),
        ([code('f()', long, 'slide')], [plain, ([], ['output'])]),
        ([code(long, '', 'slide')], [(['Plain first.'], ['code']), ([], ['code'])]),
        ([text('**B b b b b b b.** Then.'), code('f()', 'out')],
         [(['**B b b b b b b.**'], []), (['Then.'], ['output'])]),
    ):  # fmt: skip
        assert of(*cells) == expected, cells


def test_no_such_chapter_and_a_chapter_of_ones_own(tmp_path):
    done = CliRunner().invoke(slides.main, ['--chapter', '99', '--build', str(tmp_path)])
    assert done.exit_code == 2 and "there is no chapter '99'" in done.output
    nb = new_notebook(cells=[new_code_cell('1'), new_markdown_cell('Only a text, and $$x$$')])
    html, number = slides.page_of(nb, tmp_path, 'mine')
    assert number >= 1 and '<title>mine</title>' in html and pages.title_of(nb) is None


def test_a_session_of_the_plan_asks_before_it_answers(browser, tmp_path):
    done = CliRunner().invoke(slides.main, ['--session', 'five weeks 5', '--build', str(tmp_path)])
    assert done.exit_code == 0, done.output
    session, plan = slides.session_of('five weeks 5')
    browser.open((tmp_path / 'five-weeks-5.html').as_uri(), 1280, 720)
    browser.resize(720)
    shown = browser.ask(SLIDES)
    assert not [s for s in shown if s['empty'] or s['out'] or s['small']]
    words = browser.ask('[...document.querySelectorAll("section")].map((s) => s.textContent)')
    asked = [i for i, text in enumerate(words) if 'What do you expect?' in text]
    planned = [
        s['ask']
        for part in session['parts']
        for s in plan.CHAPTERS.get(part.get('chapter'), {'sections': []})['sections']
        if s['section'] in part['sections']
    ]
    assert len(asked) == len(planned)
    for i, ask in zip(asked, planned):  # in the order of the plan
        assert re.sub('[`*]', '', ask) in words[i]
    # The idle shares come after the question about them.
    (bubble,) = (i for i in asked if 'is it less with 1F1B?' in words[i])
    drawn = [i for i, s in enumerate(shown) if s['heading'] == 'By layers' and s['figures']]
    assert drawn[-1] > bubble and words[-1].strip().startswith('At home')
    for wrong in ('six weeks 1', 'five weeks 6'):
        done = CliRunner().invoke(slides.main, ['--session', wrong, '--build', str(tmp_path)])
        assert done.exit_code == 2 and f"no session '{wrong}'" in done.output
