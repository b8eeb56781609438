"""One measured run in a process of its own: ``python -m benchmarks.run JSON``.

The argument names a function of a module here, such as ``"chapter1.train"``, and its arguments.
"""

import importlib
import json
import sys

from .protocol import send


def main():
    """Call the function and send what it measured: seconds, or a dictionary."""
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
