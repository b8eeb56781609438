"""Traces of `torch.profiler`, a file a rank: two that lie here, and two recorded now."""

import pytest

from mgpu_helpers.timeline import RECORDED, read_traces


def spent(lanes, lane):
    return sum(span.seconds for span in lanes.by_lane()[lane])


def waits_for(lanes, slow, fast):
    """Is the slow rank the one that computes for longer, and whose allreduces are shorter?"""
    names = [f'rank {rank}{end}' for end in ('', ' sends') for rank in (slow, fast)]
    works, waits, slow_sends, fast_sends = (spent(lanes, name) for name in names)
    return works > 1.2 * waits and fast_sends > 1.2 * slow_sends


def test_the_recorded_straggler_is_the_rank_with_the_short_all_reduces():
    lanes = read_traces(*sorted(RECORDED.glob('straggler-*.json')), title='two ranks')
    assert lanes.lanes == ['rank 0', 'rank 0 sends', 'rank 1', 'rank 1 sends']
    assert {span.kind for span in lanes.spans} == {'forward', 'backward', 'allreduce', 'update'}
    assert waits_for(lanes, slow=1, fast=0)


def record_three_steps(folder):
    import torch

    from mgpu_helpers import pytorch as pt

    net = torch.nn.parallel.DistributedDataParallel(pt.build_lenet(pt.init_params(seed=0)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pt.recorded(folder):
        for _ in range(3):
            pt.ddp_step(torch.rand(64, 1, 28, 28), torch.arange(64) % 10, net, optimizer)


def test_two_ranks_recorded_now_are_read_on_one_clock(tmp_path):
    pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")
    from mgpu_helpers import pytorch as pt

    pt.launch(record_three_steps, 2, tmp_path)
    lanes = read_traces(*tmp_path.glob('rank-?.json'))
    spans = lanes.by_lane()
    for rank in '01':
        kinds = [span.kind for span in spans[f'rank {rank}']]
        assert kinds.count('forward') == kinds.count('update') == 3
        assert len(spans[f'rank {rank} sends']) >= 3
    # One clock: no rank's allreduce ends before the other has begun it.
    ends = [min(s.end for s in spans[f'rank {rank} sends']) for rank in '01']
    begins = [min(s.start for s in spans[f'rank {rank} sends']) for rank in '01']
    assert min(ends) > max(begins)


@pytest.mark.parametrize('text', ['', '{}', '[1]', '{"traceEvents": []}'])
def test_what_is_no_trace_of_a_rank_is_refused(tmp_path, text):
    (tmp_path / 'rank-0.json').write_text(text)
    with pytest.raises(ValueError, match='rank-0.json is not a rank trace'):
        read_traces(tmp_path / 'rank-0.json')
