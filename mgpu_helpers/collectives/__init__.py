"""Chapter 3: cheaper ways to sum gradients, counted and ready for ``train(..., sync=...)``.

``algorithms`` has the allreduces, ``bucket`` many small gradients in few big messages,
``training`` what a training step makes of both, ``counting`` what each of them sends and adds.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        'algorithms': [
            'ALGORITHMS',
            'all_gather',
            'allreduce_butterfly',
            'allreduce_kvstore',
            'allreduce_naive',
            'allreduce_ring',
            'allreduce_sharded',
            'allreduce_tree',
            'reduce_scatter',
            'send',
            'slices',
            'store_for',
        ],
        'bucket': ['Bucket', 'copy_all', 'fill_buckets'],
        'counting': ['Count', 'Counted', 'count', 'count_table'],
        'training': [
            'accumulate_batch',
            'adding_gradients',
            'make_buckets',
            'sum_in_buckets',
            'sync_with',
        ],
    },
)
