"""Chapter 4: more than one machine - a cluster with a scheduler, servers and workers.

``local`` starts a cluster on this machine; ``training`` has a worker's code; ``checkpoint`` saves
and resumes a run; ``sockets`` counts bytes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
