"""Fashion-MNIST, MNIST and, without them, scikit-learn's digits; in batches; NumPy only.

They come from the files in ``$MXNET_HOME/datasets``, if their checksums are right; else from a
verified download into that folder; else, with one visible ``OfflineDataWarning``, scikit-learn's
handwritten digits take their shape and number, so that every lesson still runs.
"""

import lazy_loader

# `doctor` asks where the files are and whether they are good, also where there is no NumPy.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
