"""Print the site to one PDF with Chromium: a cover, contents with page numbers, all pages."""

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urldefrag

from bs4 import BeautifulSoup
from pypdf import PdfReader, PdfWriter

TITLE = 'Training on several GPUs'
ABOUT = 'A course in notebooks: by hand, with a framework, faster, and beyond one machine'
LONG = 15  # lines of code or output; a longer block may be split across pages
CHROMES = ('chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable')
FLAGS = '--headless --disable-gpu --no-pdf-header-footer'.split()
STYLES = ('_static/pygments.css', '_static/book.css', '_static/paper.css')


def name(path):
    """Turn an address within the site into an anchor within one file."""
    return re.sub(r'[^\w-]+', '-', path)


def chapters(site):
    """Yield each page's path and article, following the links to the next page."""
    page = 'index.html'
    while page:
        soup = BeautifulSoup((site / page).read_text('utf8'), 'html.parser')
        yield page, soup.article
        after = soup.find('link', rel='next')
        page = after and os.path.normpath(os.path.join(os.path.dirname(page), after['href']))


def one_page(site):
    """Return all pages as one HTML text whose links stay within it, and the headings."""
    pages, body, contents = dict(chapters(site)), [], []
    for page, article in pages.items():
        for part in article.select('.headerlink, .copybtn, script, .toctree-wrapper'):
            part.decompose()
        for part in article.find_all(id=True):
            part['id'] = name(f'{page}-{part["id"]}')
        for part in article.select('p:has(> a[href="book.pdf"])'):  # this is that PDF
            part.decompose()
        for part in article.find_all('pre'):
            if part.get_text().strip().count('\n') >= LONG:
                part['class'] = [*part.get('class', []), 'long']
        for part in article.find_all('details'):
            part['open'] = ''
        for tag, attribute in (('a', 'href'), ('img', 'src')):
            for part in article.find_all(tag, **{attribute: True}):
                path, anchor = urldefrag(part[attribute])
                if ':' in path:
                    continue
                path = os.path.normpath(os.path.join(os.path.dirname(page), unquote(path)))
                path = path if part[attribute][0] != '#' else page
                inside = path in pages and name(f'{path}-{anchor}' if anchor else path)
                if inside or tag == 'img':
                    part[attribute] = f'#{inside}' if inside else path
                else:  # a file to download, which is only on the machine that printed
                    del part['href']
        article['id'] = name(page)
        article['style'] = f'page: {name(page)}'
        body.append(str(article))
        contents += [(2, name(page), article.h1.get_text().strip())]
        if page.startswith('notebooks'):
            contents += [(3, h.parent['id'], h.get_text().strip()) for h in article.find_all('h2')]
    return body, contents


def heads(contents):
    """Yield the CSS that prints the chapter's title at the top of each page."""
    for level, i, title in contents:
        if level == 2:
            words = title.replace('\\', '').replace('"', "'").replace('\n', ' ')
            yield f'@page {i} {{ @top-right {{ content: "{words}"; font: 8pt sans-serif }} }}'


def bookmark(target, contents, numbers):
    """Add an outline to the PDF; Chromium's own joins words where a heading wraps."""
    writer, above = PdfWriter(clone_from=target), None
    for level, i, title in contents:
        place = {'page_number': numbers[i] - 1, 'parent': above if level == 3 else None}
        item = writer.add_outline_item(title=title, **place, is_open=False)
        above = item if level == 2 else above
    writer.add_metadata({'/Title': TITLE})
    writer.page_mode = '/UseOutlines'
    writer.write(target)


def main(site, target):
    logging.getLogger('pypdf').setLevel(logging.ERROR)  # no warnings about Chromium's objects
    site = Path(site).resolve()
    chrome = next(filter(None, map(shutil.which, [os.environ.get('CHROME', ''), *CHROMES])), None)
    if not chrome:
        sys.exit(
            'book: no Chromium to print with. What to do: apt-get install chromium, or CHROME=PATH'
        )
    body, contents = one_page(site)
    styles = ''.join(f'<link rel="stylesheet" href="{style}">' for style in STYLES)
    file, numbers = site / 'paper.html', {}
    # Print twice: the first pass finds the page number of each section.
    for _ in range(2):
        rows = ''.join(
            f'<li class="l{level}"><a href="#{i}">{title}<b>{numbers.get(i, "")}</b></a>'
            for level, i, title in contents
        )
        file.write_text(
            f'<!doctype html><html lang="en" data-theme="light"><meta charset="utf8">{styles}'
            f'<title>{TITLE}</title><style>{"".join(heads(contents))}</style><header><h1>{TITLE}</h1>'
            f'<p>{ABOUT}</p><img src="_images/course.svg" alt=""></header>'
            f'<nav><h2>Contents</h2><ul>{rows}</ul></nav>' + ''.join(body),
            'utf8',
        )
        with tempfile.TemporaryDirectory() as profile:
            options = [*FLAGS, *['--no-sandbox'] * (os.geteuid() == 0), f'--print-to-pdf={target}']
            command = [chrome, *options, f'--user-data-dir={profile}', file.as_uri()]
            subprocess.run(command, check=True, capture_output=True)
        pdf = PdfReader(target)
        places = pdf.named_destinations.items()
        numbers = {i.lstrip('/'): pdf.get_destination_page_number(to) + 1 for i, to in places}
    file.unlink()
    bookmark(target, contents, numbers)
    print(f'book: {target}, {len(pdf.pages)} pages, {Path(target).stat().st_size / 1e6:.1f} MB')


if __name__ == '__main__':
    main(*sys.argv[1:])
