"""Read traces that ``torch.profiler`` exported, one file per rank, side by side."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..lanes import PORT, Lanes, Span

# Recorded as in chapter 5: two gloo ranks, three steps, equal ranks or with a straggler.
RECORDED = Path(__file__).parent / 'recorded'
BEGINNINGS = {  # beginnings of event names -> phase of training
    'DistributedDataParallel.forward': 'forward',
    'autograd::engine::evaluate_function: ': 'backward',
    'Optimizer.step': 'update',
}
SUMS = 'all_reduce', 'allreduce'  # in gloo's and NCCL's names


def read_traces(*files: str | Path, title: str = '') -> Lanes:
    """Read the traces of several ranks as Lanes, with two per rank: work and allreduces.

    ``files`` are from ``torch.profiler``'s ``export_chrome_trace``, .json or .json.gz, one per
    rank. Allreduces include the wait for other ranks. The clocks of several machines may differ.
    """
    return Lanes((span for file in files for span in _spans(Path(file))), title)


def _spans(file: Path) -> Iterator[Span]:
    opened = gzip.open(file) if file.suffix == '.gz' else file.open('rb')
    with opened as f:
        try:
            trace = json.load(f)
            rank, zero = trace['distributedInfo']['rank'], trace['baseTimeNanoseconds']
            events = [event for event in trace['traceEvents'] if event.get('ph') == 'X']
        except (ValueError, KeyError, TypeError) as error:
            way = "torch.profiler's export_chrome_trace, after init_process_group"
            raise ValueError(f'{file.name} is not a rank trace: export it with {way}') from error
    for event in events:
        if kind := _kind(event):
            start = zero / 1e9 + event['ts'] / 1e6
            name = event['name'].rpartition(':')[2].strip().removesuffix('Backward0')
            lane = f'rank {rank}{PORT}' if kind == 'allreduce' else f'rank {rank}'
            yield Span(lane, kind, name.rpartition('.')[2], start, start + event['dur'] / 1e6)


def _kind(event: Mapping[str, Any]) -> str | None:
    name = event['name']
    if any(word in name for word in SUMS) and event.get('cat') != 'cpu_op':
        return 'allreduce'
    return next((k for beginning, k in BEGINNINGS.items() if name.startswith(beginning)), None)
