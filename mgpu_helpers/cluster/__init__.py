"""Chapter 4: more than one machine - a cluster of a scheduler, servers and workers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submodules=['checkpoint', 'local', 'roles', 'traffic', 'training', 'watch'],
    submod_attrs={
        'local': ['LocalCluster'],
    },
)
