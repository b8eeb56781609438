"""Chapter 4: several machines, as a cluster of a scheduler, servers and workers.

``local`` starts a cluster on this machine, ``training`` is what a worker runs, ``checkpoint`` saves
and resumes a run, ``sockets`` counts bytes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
