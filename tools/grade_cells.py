"""Execute the cells of one submission and send its answers, for ``grade_answers.py``.

Nothing is checked here: the answers are sent to other processes, as functions are sent to the
workers of ``mgpu_helpers.processes``, so a cell cannot tamper with the checks.
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
    """Evaluate the arguments of a ``check`` call in a submission's namespace and return them."""
    given = eval(call, names | {'check': lambda _, *args, **options: (args, options)})
    return base64.b64encode(dumps(given)).decode()


def run_cells(job, send):
    """Run the cells of a notebook, then end this process."""
    checks, skipped = job['checks'], job['skipped']
    shell, sent = InteractiveShell.instance(), set()
    shell.cache_size = 0  # do not keep the cells' values
    shell.history_manager.enabled = False
    shell._tee = lambda channel: contextlib.nullcontext()  # nor their output, 2 GB in seconds
    try:
        text = Path(job['notebook']).read_bytes().decode('utf-8-sig')
        cells = nbformat.reads(text, as_version=4).cells
        cells = [str(cell.source) for cell in cells if cell.cell_type == 'code']
    except BaseException as error:  # the file may contain anything
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
