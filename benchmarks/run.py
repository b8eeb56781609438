"""One measured run in a process of its own: ``python -m benchmarks.run JSON``.

The argument names a function of a module here, ``"chapter1.train"``, and what it is called with.
"""

import importlib
import json
import sys

from .protocol import give_back


def main():
    """Call it and send what it measured: seconds, or a dictionary with seconds in it."""
    what, devices, batch, examples, options = json.loads(sys.argv[1])
    module, function = what.split('.')
    call = getattr(importlib.import_module(f'.{module}', __package__), function)
    measured = call(devices, batch, examples, **options)
    if not isinstance(measured, dict):
        measured = {'seconds': measured}
    if 'seconds' in measured:
        measured['examples_per_second'] = examples / measured['seconds']
    give_back(measured)


if __name__ == '__main__':
    main()
