"""Chapter 3: timelines of every device, recorded with MXNet's own profiler.

``record`` turns a block of code into ``Lanes``. A span's kind is a phase of training: ``forward``
(what runs under ``autograd.record()``), ``backward``, ``copy`` (before the backward pass),
``allreduce`` (between it and the update), ``update`` (what writes into an array that has a
gradient, and MXNet's optimizers), ``compute`` (the rest). Operators are handed out one by one, so
recorded steps take a little longer.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
