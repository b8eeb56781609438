"""Run one submission and the checks of its exercises; ``tools/grade.py`` starts this.

The job is read from standard input; verdicts go to the original standard output, a JSON line each
behind a secret token. Cells see /dev/null in place of both.
"""

import functools
import importlib
import json
import os
import resource
import sys
from pathlib import Path

from IPython.core.interactiveshell import InteractiveShell

MEMORY = 2 << 30  # bytes beyond what importing the course takes; also the limit on a file's size
OURS = set('builtins importlib inspect math mgpu_exercises mgpu_helpers mxnet numpy torch'.split())


def functions_of(modules):
    """Keep the modules' functions, so that a cell cannot replace them."""
    ours = [module for name, module in modules.items() if name.split('.')[0] in OURS]
    return [(vars(m), {k: v for k, v in vars(m).items() if callable(v)}) for m in ours]


def verdict_on(call, answers, seed, functions):
    """Check the current answers, with the original functions and fresh checks."""
    for names, kept in functions:
        names.update(kept)
    for module in [name for name in sys.modules if name.startswith('mgpu_exercises')]:
        del sys.modules[module]
    try:
        check = importlib.import_module('mgpu_exercises').check
        verdict = eval(call, answers | {'check': functools.partial(check, seed=seed)})
        return bool(verdict.right), str(verdict.sentence)
    except BaseException as error:  # also sys.exit in an answer
        return False, f'not yet: it raised {type(error).__name__}: {error}'


def main():
    job, graded = json.load(sys.stdin), set()
    token, checks, skipped = job.pop('token'), job['checks'], job['skipped']
    importlib.import_module('mgpu_exercises.checking').find(min(checks))
    results = os.fdopen(os.dup(1), 'w')
    for fd in (0, 1):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    shell, functions = InteractiveShell.instance(), functions_of(sys.modules)
    if sys.platform == 'linux':
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))

    def send(**message):
        print(token, json.dumps(message), file=results, flush=True)

    for position, (code, numbers) in enumerate([*job['cells'], ['', list(checks)]]):
        at_end = position == len(job['cells'])
        if position not in skipped and not code.startswith('check('):
            send(cell=position, number=None)
            result = shell.run_cell(code)
            if error := result.error_before_exec or result.error_in_exec:
                send(error=' '.join(f'{type(error).__name__}: {error}'.split())[:200])
        for number in numbers:
            if number in checks.keys() - set(skipped) - (graded if at_end else set()):
                send(cell=position, number=number)
                right, sentence = verdict_on(checks[number], shell.user_ns, job['seed'], functions)
                if at_end or 'NameError' not in sentence:  # a later cell may define the name
                    graded.add(number)
                    send(number=number, right=right, sentence=sentence[:1000])
    send(end='all done')
    results.close()
    os._exit(0)  # a submission may leave threads or exit handlers


if __name__ == '__main__':
    main()
