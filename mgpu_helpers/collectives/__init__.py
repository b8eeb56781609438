"""Chapter 3: cheaper ways to sum gradients, and their cost in messages, bytes and time.

``algorithms`` has the allreduces, ``costs`` their formulas. ``messages`` logs what each sends and
adds, and when, over any link; ``slow_network`` delays copies between stand-ins. ``buckets`` packs
many gradients into few messages; its ``sync_with`` is for ``train(..., sync=...)``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
