"""Perform one measured run in a separate process: ``python -m benchmarks.run JSON``.

The argument is a list: a function's name, such as ``"ours.scratch"``, and its arguments.
"""

import importlib
import json
import sys

from .protocol import send


def main():
    """Call the function and send its measurements: seconds, or a dictionary."""
    what, devices, batch, examples, options = json.loads(sys.argv[1])
    module, function = what.split('.')
    call = getattr(importlib.import_module(f'.{module}', __package__), function)
    measured = call(devices, batch, examples, **options)
    if not isinstance(measured, dict):
        measured = {'seconds': measured}
    if 'seconds' in measured:
        measured['examples_per_second'] = examples / measured['seconds']
    send(measured)


if __name__ == '__main__':
    main()
