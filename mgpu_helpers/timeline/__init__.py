"""Chapter 3: what ran when, on which device - recorded with MXNet's own profiler.

``record`` turns a block of code into a ``Lanes`` (``mgpu_helpers.lanes``): its picture, its
table, its trace. ``phase`` names what code of one's own does; ``one_batch`` records chapter 1's
training step.

>>> import mgpu_helpers as mgpu
>>> from mxnet import nd
>>> with mgpu.timeline.record() as timeline:
...     product = nd.dot(nd.ones((300, 300)), nd.ones((300, 300)))
>>> sorted({span.name for span in timeline.spans})
['_ones', 'dot']
"""

from .recording import one_batch, phase, record

__all__ = ['one_batch', 'phase', 'record']
