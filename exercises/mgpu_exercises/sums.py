"""Check sums and buckets, for MXNet's arrays and PyTorch's tensors alike."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgpu_helpers.collectives import fill_buckets

from .checking import Hint, expect


def expect_sum(before: Sequence[Any], after: Sequence[Any], who: str) -> None:
    """Raise a hint unless each of these NumPy arrays has become the sum of all.

    ``who`` is 'devices' or 'ranks', for the hint.
    """
    k, total = len(before), sum(before)
    where = [i for i, x in enumerate(after) if np.array_equal(x, total)]
    if len(where) == k:
        return
    if all(np.array_equal(x, y) for x, y in zip(after, before)):
        raise Hint('no array has changed: write the sum into the given arrays')
    if any(np.array_equal(x, total / k) for x in after):
        raise Hint(f'with {k} {who}, some hold the mean: keep the sum, because the update divides')
    if where and all(np.array_equal(after[i], before[i]) for i in range(k) if i not in where):
        raise Hint(f'of {k} {who}, only {where} hold the sum: send it back to all the others')
    raise Hint(
        f'with {k} {who} of shape {before[0].shape}, {where or "none"} hold the sum, and others '
        'hold different values: did you add an array that already held a sum, or '
        f'forget one? Print them for two {who}'
    )


def expect_buckets(found: Any, sizes: list[int], limit: int) -> None:
    """Raise a hint unless ``found`` has gradient indices in buckets, the last gradient first."""
    found = [list(bucket) for bucket in found]
    hint = 'a bucket is a list of gradient indices; the first one is 0'
    expect(all(np.ndim(i) == 0 for bucket in found for i in bucket), hint)
    found = [[int(i) for i in bucket] for bucket in found]
    found = [sorted(bucket, reverse=True) for bucket in found]  # a bucket is sent as a whole
    hint = f'{found} has an empty bucket, which would be an empty message'
    expect(all(found), hint, f'sizes {sizes}, {limit} bytes per bucket')
    ours, flat = fill_buckets(sizes, limit), [i for bucket in found for i in bucket]
    case = f'sizes {sizes}, {limit} bytes per bucket: {found}'
    hint = 'each gradient belongs to one bucket, even if it is larger than a bucket'
    expect(sorted(flat) == list(range(len(sizes))), hint, case)
    expect(
        len(found) == 1 or 0 not in found[0],
        'the first layer is computed last, so its gradients come last',
        case,
    )
    full = [b for b in found if len(b) > 1 and sum(sizes[i] for i in b) > limit]
    expect(not full, f'bucket {(full or [[]])[0]} is larger than the limit', case)
    hint = 'gradients become ready from last to first; in any other order one would wait'
    expect(flat == sorted(flat, reverse=True), hint, case)
    expect(len(found) <= len(ours), f'{len(ours)} buckets are enough', case)
    expect(
        found == ours, f'{case}, not {ours}: start a new bucket when the next gradient does not fit'
    )
