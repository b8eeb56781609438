"""Fashion-MNIST, MNIST and, without them, scikit-learn's digits; in batches; NumPy only.

They come from the files in ``$MXNET_HOME/datasets``, if their checksums are right; else from a
verified download into that folder; else, with one visible ``OfflineDataWarning``, scikit-learn's
handwritten digits take their shape and number, so that every lesson still runs.
"""

from .batches import Batches
from .fetch import CacheWarning
from .sets import Dataset, OfflineDataWarning, dataset, environment_for_children, load_arrays

__all__ = [
    'Batches',
    'CacheWarning',
    'Dataset',
    'OfflineDataWarning',
    'dataset',
    'environment_for_children',
    'load_arrays',
]
