"""Chapter 8: the cost of training on machines that you do not have; imports no framework.

Figures that others published are data, in published.toml and networks.csv: ``LINKS``, ``MACHINES``,
``MODELS``. ``costs`` has formulas of communication, ``curves`` of a training step, ``memory`` of
what a device keeps, ``bill`` of a whole training; ``simulator`` plays steps through, ``published``
compares with measurements.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
