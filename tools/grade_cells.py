"""Execute the cells of one submission and send its answers, for ``grade_answers.py``.

Nothing is checked here: the answers travel to other processes, as functions travel to the workers
of ``mgpu_helpers.processes``, so what a cell does to the checks has no effect.
"""

import base64
import contextlib
import os
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell

from mgpu_helpers.processes.launching import dumps
from student import CHECK


def answers_to(call, names):
    """Evaluate a call of ``check`` in a submission's names; return what it is given."""
    given = eval(call, names | {'check': lambda _, *args, **options: (args, options)})
    return base64.b64encode(dumps(given)).decode()


def run_cells(job, send):
    """Run the cells of a notebook, and end this process."""
    checks, skipped = job['checks'], job['skipped']
    shell, sent = InteractiveShell.instance(), set()
    shell.cache_size = 0  # what cells give back is not kept
    shell.history_manager.enabled = False
    shell._tee = lambda channel: contextlib.nullcontext()  # nor what they print, 2 GB in seconds
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
    send(end=True)
    os._exit(0)  # a submission may leave threads or exit handlers
