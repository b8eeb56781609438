"""Run one submission and the checks of its exercises; ``tools/grade.py`` starts this.

Given: the source notebook, the submission, the seed, and the numbers of cells to leave out (which
ended a try before). Verdicts go, a JSON line each, to the file descriptor 3, which no cell is told.
"""

import ast
import importlib
import json
import os
import re
import resource
import signal
import sys
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell

CHECK = re.compile(r"^check\('(\d+\.\d+)'", re.MULTILINE)
NAME = re.compile(r'^name = .*$', re.MULTILINE)
CELL_SECONDS = 20  # one cell; the slowest solution takes about two
MEMORY = 2 << 30  # bytes more than what importing the course takes


class TooLong(BaseException):
    """A cell has run for its time. No Exception, so that no cell passes it over."""


def alarm(*_):
    raise TooLong


def cells_of(path):
    """Give a notebook's code cells; damaged ones are left out, and so is all that is no text."""
    try:
        cells = nbformat.reads(Path(path).read_text(encoding='utf8'), as_version=4).cells
    except Exception:
        cells = json.loads(Path(path).read_text(encoding='utf8', errors='replace')).get('cells', [])
    found = []
    for cell in cells if isinstance(cells, list) else []:
        source = cell.get('source', '') if isinstance(cell, dict) else ''
        source = ''.join(source) if isinstance(source, list) else source
        if isinstance(source, str) and isinstance(cell, dict) and cell.get('cell_type') == 'code':
            found.append(source)
    return found


def checks_of(source):
    """Give our own calls of ``check`` by number."""
    return {m[1]: cell for cell in cells_of(source) for m in [CHECK.search(cell)] if m}


class Run:
    """A submission being run."""

    def __init__(self, checks, seed):
        self.checks, self.seed, self.graded = checks, seed, set()
        self.shell = InteractiveShell.instance()
        self.tell = os.fdopen(3, 'w')

    def say(self, **line):
        self.tell.write(json.dumps(line) + '\n')
        self.tell.flush()

    def execute(self, code):
        """Run one cell; give what went wrong in a few words, or ''."""
        signal.signal(signal.SIGALRM, alarm)
        signal.alarm(CELL_SECONDS)
        try:
            result = self.shell.run_cell(code)
            error = result.error_before_exec or result.error_in_exec
            return f'{type(error).__name__}: {error}' if error else ''
        except TooLong:
            return f'ran for {CELL_SECONDS} s'
        finally:
            signal.alarm(0)

    def grade(self, number):
        """Check the answers there are now by modules loaded anew, whatever a cell has changed."""
        self.graded.add(number)
        for module in [name for name in sys.modules if name.startswith('mgpu_helpers.exercises')]:
            del sys.modules[module]
        check = importlib.import_module('mgpu_helpers.exercises').check
        call = ast.parse(self.checks[number]).body[-1].value
        space = self.shell.user_ns
        missing = [a.id for a in call.args[1:] if a.id not in space]
        if missing:
            self.say(number=number, right=False, sentence=f'{missing[0]} is missing')
            return
        named = {'name': str(space.get('name', ''))} if call.keywords else {}
        signal.signal(signal.SIGALRM, alarm)
        signal.alarm(CELL_SECONDS)
        try:
            verdict = check(number, *(space[a.id] for a in call.args[1:]), **named, seed=self.seed)
            right, sentence = verdict.right, verdict.sentence
        except TooLong:
            right, sentence = False, f'its answer ran for {CELL_SECONDS} s'
        except BaseException as error:  # also sys.exit in an answer
            right, sentence = False, f'not yet: it raised {type(error).__name__}'
        finally:
            signal.alarm(0)
        self.say(number=number, right=bool(right), sentence=sentence)


def main():
    source, submission, seed, *skipped = sys.argv[1:]
    run = Run(checks_of(source), int(seed))
    importlib.import_module('mgpu_helpers.exercises.chapter' + next(iter(run.checks)).split('.')[0])
    pages = int(Path('/proc/self/statm').read_text().split()[0]) if sys.platform == 'linux' else 0
    if pages:
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for position, code in enumerate(cells_of(submission)):
        found = CHECK.search(code)
        if found and found[1] in run.checks:
            code = ''  # ours takes its place
        run.say(cell=position, number=found and found[1])
        if str(position) in skipped:
            continue
        if found and found[1] in run.checks and found[1] not in run.graded:
            run.grade(found[1])
        elif error := run.execute(code):
            run.say(error=' '.join(error.split())[:200], at=position)
    for number in run.checks:
        if number not in run.graded:
            run.say(cell=-1, number=number)
            if number not in skipped:
                run.grade(number)
    run.say(end=True)
    run.tell.close()
    os._exit(0)  # whatever threads or handlers a submission leaves


if __name__ == '__main__':
    main()
