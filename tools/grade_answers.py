"""Answer for a student's functions; ``tools/grade.py`` starts this: a process for each answer.

Nothing is decided here: ``grade_checks.py`` asks for what a function gives.
"""

import json
import os
import pickle
import sys
from pathlib import Path

from grade_cells import functions_of, limit_memory, replaced_in, start
from grade_wire import Wire

from mgpu_exercises.checking import find


def answer(path, lines, send):
    """Answer what is asked about the answer in a file, until we are ended."""
    before, main = functions_of(), set(vars(sys.modules['__main__']))

    def exchange(message):
        send(**message)
        return json.loads(lines.readline())

    def answers():
        args, options = pickle.loads(Path(path).read_bytes())
        name = options.get('name')
        return list(args), None if name is None else str(name)[:100]

    def replaced():
        more = ['__main__'] * (set(vars(sys.modules['__main__'])) != main)
        return [*wire.odd, *more, *replaced_in(before)]

    wire = Wire(exchange, decides=False)
    wire.answers, wire.replaced = answers, replaced
    message = exchange({'begun': True})
    while True:
        message = exchange(wire.done(message))


def main():
    lines, send = start()
    find(json.loads(lines.readline())['number'])
    send(ready=True)
    while line := lines.readline():
        if (child := os.fork()) == 0:
            limit_memory()
            try:
                answer(json.loads(line)['answer'], lines, send)
            finally:
                os._exit(1)
        os.waitpid(child, 0)
        send(ended=True)
    os._exit(0)


if __name__ == '__main__':
    main()
