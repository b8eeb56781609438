"""Chapter 7: the share of the time in which a pipeline's stages compute."""

import statistics

from .protocol import wait_for_the_others

STEPS = 12  # of which the first two warm up


def passes(num_micro_batches, batch_size):
    """Run 1F1B on a vision transformer; return a stage's spans in each step."""
    import torch
    import torch.distributed as dist

    import mgpu_helpers as mgpu

    part = mgpu.pytorch
    net = part.vit(dtype='float32')
    stage = part.stage_of(net, dist.get_rank(), dist.get_world_size())
    X, y = torch.rand(batch_size, 1, 28, 28), torch.zeros(batch_size, dtype=torch.int64)
    spans_of_steps = []
    for _ in range(STEPS):
        dist.barrier()
        spans_of_steps.append(part.one_f_one_b(stage, X, y, num_micro_batches).spans)
    return spans_of_steps[2:]


def pipeline(num_devices, batch_size, num_examples, num_micro_batches):
    """Measure the share of the time in which stages compute, beside the bubble formula's."""
    import mgpu_helpers as mgpu

    wait_for_the_others()
    stages = mgpu.pytorch.launch(passes, num_devices, num_micro_batches, batch_size)
    shares = []
    for spans in zip(*stages):  # of one step, all stages
        every = [span for of_one in spans for span in of_one]
        whole = max(span.end for span in every) - min(span.start for span in every)
        shares.append(sum(span.seconds for span in every) / (whole * num_devices))
    formula = num_micro_batches / (num_micro_batches + num_devices - 1)
    return {'busy': statistics.median(shares), 'formula': formula}
