"""Chapter 8: the cost of training on machines that you do not have; imports no framework.

Published figures are in published.toml and networks.csv: ``LINKS``, ``MACHINES``, ``MODELS``. The
formulas are in ``costs`` (communication), ``curves`` (a training step), ``memory`` (a device) and
``bill`` (a whole training run); ``simulator`` simulates steps, ``published`` compares predictions
with measurements.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
