"""Chapter 3: cheaper ways to sum gradients, counted and ready for ``train(..., sync=...)``.

``costs`` lists the allreduces of ``algorithms`` with their formulas. ``messages`` counts what each
sends and adds, and when, over any link; ``slow_network`` slows copies between stand-ins.
``buckets`` packs many gradients into few messages, and makes a ``sync`` for training steps.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
