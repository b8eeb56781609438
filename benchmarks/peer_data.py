"""MXNet's own class of Fashion-MNIST, which reads and decodes the files itself.

The time to the first step includes that, for a peer as for us.
"""

from mxnet import gluon


class Published(gluon.data.vision.FashionMNIST):
    """The original, except that it accepts the published files.

    The original knows only the checksums of other copies, refuses these and downloads again.
    """

    def _get_data(self):
        for name in ('_train_data', '_train_label', '_test_data', '_test_label'):
            setattr(self, name, (getattr(self, name)[0], None))
        super()._get_data()
