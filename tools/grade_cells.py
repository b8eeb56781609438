"""Execute the cells of one submission and send its answers; ``tools/grade.py`` starts this.

Nothing is checked here: the answers travel to ``tools/grade_checks.py``, as functions travel to the
workers of ``mgpu_helpers.processes``, so what a cell does to the checks has no effect.
"""

import base64
import contextlib
import importlib
import json
import os
import resource
import sys
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell

from mgpu_helpers.processes.launching import dumps
from student import CHECK

MEMORY = 2 << 30  # bytes beyond what importing the course takes; also the limit on a file's size


def limit_memory():
    if sys.platform == 'linux':
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))


OURS = 'builtins importlib inspect json math mgpu_exercises mgpu_helpers mxnet numpy torch'.split()


def functions_of():
    """List the functions of the course's modules, to see which of them a student replaces."""
    ours = [(n, m) for n, m in sys.modules.items() if n.split('.')[0] in OURS and vars(m)]
    return [(m, k, v, f'{n}.{k}') for n, m in ours for k, v in vars(m).items() if callable(v)]


def replaced_in(functions):
    """Name those functions that are others by now."""
    return [name for module, k, v, name in functions if vars(module).get(k, v) is not v]


def start():
    """Return the job, and a function that sends messages; cells see /dev/null in place of both."""
    lines = os.fdopen(os.dup(0))
    results = os.fdopen(os.dup(1), 'w')
    for fd in (0, 1):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    token = json.loads(lines.readline())['token']

    def send(**message):
        print(token, json.dumps(message), file=results, flush=True)

    return lines, send


def answers_to(call, names):
    """Evaluate a call of ``check`` in a submission's names; return what it is given."""
    given = eval(call, names | {'check': lambda _, *args, **options: (args, options)})
    return base64.b64encode(dumps(given)).decode()


def main():
    lines, send = start()
    job = json.loads(lines.readline())
    checks, skipped = job['checks'], job['skipped']
    # What limits memory must not be met by importing what every answer needs.
    importlib.import_module('mgpu_exercises.checking').find(min(checks))
    shell, sent = InteractiveShell.instance(), set()
    shell.cache_size = 0  # what cells give back is not kept
    shell.history_manager.enabled = False
    shell._tee = lambda channel: contextlib.nullcontext()  # nor what they print, 2 GB in seconds
    limit_memory()
    functions = functions_of()
    try:
        text = Path(job['notebook']).read_bytes().decode('utf-8-sig')
        cells = nbformat.reads(text, as_version=4).cells
        cells = [str(cell.source) for cell in cells if cell.cell_type == 'code']
    except BaseException as error:  # the file can hold anything
        send(unreadable=type(error).__name__)
        os._exit(0)
    for position, code in enumerate([*cells, '']):
        at_end = position == len(cells)
        if position not in skipped and not code.startswith('check('):
            send(cell=position)
            result = shell.run_cell(code)
            if error := result.error_before_exec or result.error_in_exec:
                send(error=type(error).__name__)
            if isinstance(error, MemoryError):
                os._exit(1)
        for number, call in checks.items():
            if number in CHECK.findall(code) or (at_end and number not in sent):
                try:
                    send(number=number, answers=answers_to(call, shell.user_ns))
                    sent.add(number)
                except NameError:  # a later cell may define it
                    if at_end:
                        send(number=number, missing='NameError')
                except BaseException as error:
                    send(number=number, missing=type(error).__name__)
    if replaced := replaced_in(functions):
        send(replaced=replaced)
    send(end=True)
    os._exit(0)  # a submission may leave threads or exit handlers


if __name__ == '__main__':
    main()
