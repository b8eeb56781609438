"""Chapter 4: more than one machine - a cluster of a scheduler, servers and workers.

``local`` starts one on this machine; ``training`` has the code of a worker; ``checkpoint`` saves
and resumes a run; ``sockets`` counts bytes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
