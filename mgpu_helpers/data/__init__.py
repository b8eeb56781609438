"""Fashion-MNIST, MNIST and, without them, scikit-learn's digits; in batches; NumPy only.

Where the data come from, in this order: the four files in ``$MXNET_HOME/datasets/fashion-mnist``
(or ``mnist``; ``MXNET_HOME`` is ``~/.mxnet`` unless set), if their checksums are right; a verified
download into that folder from the first mirror that answers (``MGPU_DATA_MIRRORS`` names your own);
with one visible ``OfflineDataWarning``, scikit-learn's handwritten digits brought to the same shape
and number, so that every lesson still runs.
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
