"""Chapter 3: what an allreduce costs, on machines that are not there; never imports MXNet.

``links`` has the published speeds of links, ``costs`` a formula for each algorithm, ``models`` the
sizes of networks, ``machines`` what devices compute and how they are joined, ``curves`` a training
step's time and how it scales (``drawings`` its pictures), ``memory`` what a device has to keep,
``published`` what others measured beside what this predicts. ``fitting`` finds the latency and
bandwidth of this machine, ``simulator`` plays training steps through, ``messages`` a single
allreduce, ``explore`` has sliders.

>>> from mgpu_helpers.scaling import LINKS, ring
>>> f'{ring(8, 160e6, LINKS["100 Gb InfiniBand"]) * 1000:.1f} ms'
'22.6 ms'
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        'costs': [
            'ALGORITHMS',
            'butterfly',
            'hierarchical',
            'naive',
            'ring',
            'sharded',
            'through_host',
            'tree',
        ],
        'curves': [
            'POWERS',
            'Scaling',
            'Step',
            'eight_slower_than_one',
            'hiding_batch',
            'many_devices',
            'plot_hiding',
            'step',
            'step_seconds',
            'strong_scaling',
            'weak_scaling',
        ],
        'drawings': ['plot_costs'],
        'explore': ['Explorer', 'explore', 'picture'],
        'fitting': ['Fit', 'fit', 'measure'],
        'links': ['LINKS', 'Link', 'links_table'],
        'machines': ['MACHINES', 'Machine', 'communication_seconds', 'sustained_flops'],
        'memory': ['Memory', 'memory_per_device'],
        'messages': ['message_seconds', 'rounds'],
        'models': ['FLOAT32', 'MODELS', 'Layer', 'Model', 'models_table'],
        'published': [
            'Comparison',
            'horovod_machine',
            'published_scaling',
            'published_table',
            'published_times',
        ],
        'simulator': ['Simulation', 'simulate'],
    },
)
