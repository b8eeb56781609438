"""Workers of a real parameter server, for tests: ranks, with a scheduler and servers beside."""

import contextlib

import mgpu_helpers as mgpu
from mgpu_helpers.cluster import local, serve
from mgpu_helpers.ranks import stop


@contextlib.contextmanager
def at_work(workers=2, servers=1):
    """Start workers; give them, and all processes by name."""
    try:
        ranks = mgpu.ranks(workers)
        yield ranks, serve(ranks[:], servers=servers)
    finally:
        local.stop()
        stop()


def on_workers(function, *args, workers=2, servers=1, **kwargs):
    """Call a function in new workers; give back what each returned, in order of rank."""
    with at_work(workers, servers) as (ranks, _):
        return ranks[:].apply_sync(function, *args, **kwargs)
