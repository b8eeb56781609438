"""Chapter 3: timelines of every device, recorded with MXNet's own profiler.

``record`` returns a block's work as ``Lanes``. A span's kind is a phase of training: ``forward``
(operators under ``autograd.record()``), ``backward``, ``copy`` (before the backward pass),
``allreduce`` (between it and the update), ``update`` (writes into an array with a gradient, and
MXNet's optimizers), ``compute`` (the rest). Recorded steps take a little longer, because operators
are pushed one by one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
