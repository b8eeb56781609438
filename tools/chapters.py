"""Read the list of chapters in ``notebooks/chapters.yml``.

``python tools/chapters.py`` writes the notebooks' opening lines and the tables in README.md and
book/index.md.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
START, END = '<!-- chapters -->\n', '<!-- end -->\n'  # around a table of the chapters


@dataclass
class Chapter:
    """One entry of the list; chapters.yml explains its fields."""

    number: int
    file: str
    question: str
    framework: str
    read: int
    run: int
    code: list[str] = field(default_factory=list)

    @property
    def path(self):
        return ROOT / 'notebooks' / f'{self.file}.ipynb'

    @property
    def title(self):
        first = json.loads(self.path.read_text(encoding='utf8'))['cells'][0]
        return ''.join(first['source']).splitlines()[0].removeprefix('# ')

    @property
    def opening(self):
        return (
            f'*Chapter {self.number} of {len(CHAPTERS)}. It takes about {self.read} minutes to '
            f'read, and {self.run} to run on two cores.*'
        )


LIST = yaml.safe_load((ROOT / 'notebooks/chapters.yml').read_text(encoding='utf8'))
CHAPTERS = [Chapter(number, **entry) for number, entry in enumerate(LIST, 1)]


def table(to_notebooks):
    """Return the Markdown table; ``to_notebooks`` is the path from the page to the notebooks."""
    rows = [
        f'| {c.number} | [{c.title}]({to_notebooks}/{c.path.name}) | {c.question} |\n'
        for c in CHAPTERS
    ]
    return ''.join(['| | chapter | the question it answers |\n|---|---|---|\n', *rows])


def renewed():
    """Return {file: its up-to-date text} for the files that repeat part of the list."""
    texts = {}
    for name, to_notebooks in {'README.md': 'notebooks', 'book/index.md': '../notebooks'}.items():
        text = (ROOT / name).read_text(encoding='utf8')
        before, rest = text.split(START)
        texts[ROOT / name] = before + START + table(to_notebooks) + END + rest.split(END, 1)[1]
    for chapter in CHAPTERS:
        text = chapter.path.read_text(encoding='utf8')
        old = ''.join(json.loads(text)['cells'][0]['source']).splitlines()[2]
        texts[chapter.path] = text.replace(json.dumps(old)[1:-1], chapter.opening, 1)
    return texts


def main():
    for path, text in renewed().items():
        path.write_text(text, encoding='utf8')


if __name__ == '__main__':
    main()
