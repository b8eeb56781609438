"""Find the available devices, GPUs or stand-ins, and measure their speed.

``driver`` needs no framework; ``mxnet_devices`` loads MXNet.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
