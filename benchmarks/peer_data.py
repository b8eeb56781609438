"""MXNet's own class of Fashion-MNIST, which reads and decodes the files itself.

Where one waits for the first step, that is part of the waiting, for a peer as for us.
"""

from mxnet import gluon


class Published(gluon.data.vision.FashionMNIST):
    """As it is, but that it takes the published files.

    The original knows the checksums of other copies only, refuses these and downloads again.
    """

    def _get_data(self):
        for name in ('_train_data', '_train_label', '_test_data', '_test_label'):
            setattr(self, name, (getattr(self, name)[0], None))
        super()._get_data()
