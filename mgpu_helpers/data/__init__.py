"""Load Fashion-MNIST or MNIST in batches, with NumPy only.

They come from ``$MXNET_HOME/datasets`` if the checksums match, else from a verified download into
that folder. If neither works, an ``OfflineDataWarning`` says that scikit-learn's digits are used
instead, with the same shape and number, so that every lesson still runs.
"""

import lazy_loader

# Lazy, so that `doctor` can check the files even without NumPy.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
