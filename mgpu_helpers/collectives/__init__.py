"""Chapter 3: cheaper ways to sum gradients, counted and ready for ``train(..., sync=...)``.

``algorithms`` has the allreduces, ``kvstore`` MXNet's own; ``counting`` finds out what each sends
and adds, and when, over any link; ``slow`` makes stand-ins feel one. ``syncing`` puts many
gradients into few messages, as ``filling`` says, and makes a training step's ``sync`` of both.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
