"""Run a student's cells, then call their functions on request; ``tools/grading.py`` starts this.

Each job runs in a separate process, forked from one that has imported the checks' packages. Nothing
is decided here: ``grade_checks.py`` asks for the results of functions.
"""

import json
import os
import pickle
import resource
import sys
from contextlib import suppress
from pathlib import Path

from grade_cells import run_cells
from grade_wire import Wire

from mgpu_exercises.checking import find

MEMORY = 2 << 30  # bytes in addition to importing the course; also the limit on a file's size


def limit_memory():
    if sys.platform == 'linux':
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MEMORY, MEMORY))


def start():
    """Return the jobs and a function that sends messages; cells see /dev/null instead of both."""
    lines = os.fdopen(os.dup(0))
    results = os.fdopen(os.dup(1), 'w')
    for fd in (0, 1):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)
    token = json.loads(lines.readline())['token']

    def send(**message):
        print(token, json.dumps(message), file=results, flush=True)

    find(json.loads(lines.readline())['number'])
    send(ready=True)
    return lines, send


def answer(path, lines, send):
    """Reply to questions about the answer stored in a file, until this process is killed."""

    def exchange(message):
        send(**message)
        return json.loads(lines.readline())

    def answers():
        args, options = pickle.loads(Path(path).read_bytes())
        name = options.get('name')
        return list(args), None if name is None else str(name)[:100]

    wire = Wire(exchange, decides=False)
    wire.answers = answers
    message = exchange({'begun': True})
    while True:
        message = exchange(wire.done(message))


def main():
    lines, send = start()
    while line := lines.readline():
        job = {}
        with suppress(ValueError):  # input that a child has left unread
            job = json.loads(line)
        if 'word' in job:
            send(word=job['word'])
        elif 'answer' in job or 'notebook' in job:
            if (child := os.fork()) == 0:
                try:
                    limit_memory()
                    if 'answer' in job:
                        answer(job['answer'], lines, send)
                    run_cells(job, send)
                finally:
                    os._exit(1)
            os.waitpid(child, 0)
            send(ended=True)
    os._exit(0)


if __name__ == '__main__':
    main()
