"""Run Python with the words that were given to make: ``split_arguments.py NAME ... -- ARGUMENTS``.

Each NAME is a variable of the environment, quoted as in a shell. Nothing in it is run or replaced:
``$``, ``;`` and ``*`` are letters like others. But ``~/`` is the home folder, and what TESTS names
may be a pattern.
"""

import glob
import os
import shlex
import sys

end = sys.argv.index('--')
given = []
for name in sys.argv[1:end]:
    value = os.environ.get(name, '')
    try:
        words = [os.path.expanduser(word) for word in shlex.split(value)]
    except ValueError as error:
        sys.exit(f'make: {name} is {value}, which cannot be read ({error}): quote it as in a shell')
    for word in words:
        given += sorted(glob.glob(word)) if name == 'TESTS' and glob.glob(word) else [word]
os.execv(sys.executable, [sys.executable, *sys.argv[end + 1 :], *given])
