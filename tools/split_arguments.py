"""Run Python with words from make's variables: ``split_arguments.py NAME ... -- ARGUMENTS``.

Each NAME is an environment variable whose words are quoted as in a shell. Nothing in it is executed
or expanded: ``$``, ``;`` and ``*`` are ordinary characters. There are two exceptions: ``~/`` is the
home folder, and TESTS may contain patterns.
"""

import glob
import os
import shlex
import sys

end = sys.argv.index('--')
words_of_all = []
for name in sys.argv[1:end]:
    value = os.environ.get(name, '')
    try:
        words = [os.path.expanduser(word) for word in shlex.split(value)]
    except ValueError as error:
        sys.exit(f'make: {name} is {value}, which cannot be read ({error}): quote it as in a shell')
    for word in words:
        words_of_all += sorted(glob.glob(word)) if name == 'TESTS' and glob.glob(word) else [word]
os.execv(sys.executable, [sys.executable, *sys.argv[end + 1 :], *words_of_all])
