"""Chapter 3: what ran when, on which device - recorded with MXNet's own profiler.

``record`` turns a block of code into ``Lanes``, with their picture and their table. A span's kind
is the phase of training that its operator belongs to:

- ``forward``: what runs under ``autograd.record()``; ``backward``: the backward pass;
- ``copy``: copies before the backward pass, such as shards of a batch;
- ``allreduce``: all that comes between the backward pass and the update;
- ``update``: what writes into an array that has a gradient, and MXNet's optimizers;
- ``compute``: the rest, such as a forward pass that no gradient is asked for.

Operators are handed out one by one, so recorded steps take a little longer; with
``MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN`` above 1 some appear together.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
