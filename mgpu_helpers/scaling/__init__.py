"""Chapter 8: what training would cost, on machines that are not there; imports no framework.

``links`` has the published speeds of links, ``costs`` a formula for each algorithm, ``parallel``
one for what chapters 4 to 7 do, ``models`` the sizes of networks, ``machines`` what devices compute
and how they are joined, ``curves`` a training step's time and how it scales (``drawings``: what
plots share), ``memory`` what a device has to keep, ``published`` what others measured beside what
this predicts. ``fitting`` finds the link of this machine, ``simulator`` plays training steps
through, ``sliders`` lets one play with all of it.

>>> from mgpu_helpers.scaling import LINKS, ring
>>> f'{ring(8, 160e6, LINKS["100 Gb InfiniBand"]) * 1000:.1f} ms'
'22.6 ms'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
