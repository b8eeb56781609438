"""Traces of `torch.profiler`, a file a rank: two that lie here, and two recorded now."""

import shutil
import subprocess
import sys

import pytest
from checkouts import ROOT

from mgpu_helpers.timeline import RECORDED, read_traces


def spent(lanes, lane):
    return sum(span.seconds for span in lanes.by_lane()[lane])


def waits_for(lanes, slow, fast):
    """Is the slow rank the one that computes for longer, and whose all-reduces are shorter?"""
    names = [f'rank {rank}{end}' for end in ('', ' sends') for rank in (slow, fast)]
    works, waits, slow_sends, fast_sends = (spent(lanes, name) for name in names)
    return works > 1.2 * waits and fast_sends > 1.2 * slow_sends


def test_the_recorded_straggler_is_the_rank_with_the_short_all_reduces():
    lanes = read_traces(*sorted(RECORDED.glob('straggler-*.json')), title='two ranks')
    assert lanes.lanes == ['rank 0', 'rank 0 sends', 'rank 1', 'rank 1 sends']
    assert {span.kind for span in lanes.spans} == {'forward', 'backward', 'allreduce', 'update'}
    assert waits_for(lanes, slow=1, fast=0)


def test_two_ranks_recorded_by_the_script_are_read_on_one_clock(tmp_path):
    pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")
    shutil.copy(ROOT / 'training/profile_ranks.py', tmp_path)
    command = '-m torch.distributed.run --standalone --nproc-per-node 2 profile_ranks.py'
    command = [sys.executable, *command.split(), '--straggler', '4']
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True)
    lanes = read_traces(*tmp_path.glob('rank-?.json'))
    spans = lanes.by_lane()
    for rank in '01':
        kinds = [span.kind for span in spans[f'rank {rank}']]
        assert kinds.count('forward') == kinds.count('update') == 3
        assert len(spans[f'rank {rank} sends']) >= 3
    assert waits_for(lanes, slow=1, fast=0)
    # One clock: no rank's all-reduce ends before the other has begun it.
    ends = [min(s.end for s in spans[f'rank {rank} sends']) for rank in '01']
    begins = [min(s.start for s in spans[f'rank {rank} sends']) for rank in '01']
    assert min(ends) > max(begins)


@pytest.mark.parametrize('text', ['', '{}', '[1]', '{"traceEvents": []}'])
def test_what_is_no_trace_of_a_rank_is_refused(tmp_path, text):
    (tmp_path / 'rank-0.json').write_text(text)
    with pytest.raises(ValueError, match='rank-0.json is no trace of a rank'):
        read_traces(tmp_path / 'rank-0.json')
