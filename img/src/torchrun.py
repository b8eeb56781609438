"""torchrun starts one script in several processes.

torchrun starts step2.py once for each device of two machines. On the first machine it sets RANK
to 0 and 1, on the second to 2 and 3; LOCAL_RANK is 0 and 1 on each, WORLD_SIZE is 4 everywhere.
Every process trains on its shard of the batch; only rank 0 prints and saves.

The local rank selects the device, the rank selects the shard of the batch. All ranks train;
only rank 0 prints and saves.
"""

import draw as d

figure = d.Figure(400, __doc__, 'One file, four processes on two machines')
PANEL, GAP, TOP = 172, 8, 128
for machine in range(2):
    x = d.MARGIN + machine * 2 * (PANEL + GAP)
    figure.box(x, 62, 2 * PANEL + GAP, 36, f'torchrun on machine {machine}')
    for local in range(2):
        rank = 2 * machine + local
        left = x + local * (PANEL + GAP)
        figure.arrow((left + PANEL / 2, 98), (left + PANEL / 2, TOP))
        figure.device(left, TOP, PANEL, 184, rank, 'step2.py', mono=True)
        told = (f'RANK={rank}', f'LOCAL_RANK={local}', 'WORLD_SIZE=4')
        for i, line in enumerate(told):
            figure.text(left + 12, TOP + 50 + 22 * i, line, size=d.SMALL, mono=True)
        words = f'shard {rank} of a batch'
        figure.data(left + 12, TOP + 112, PANEL - 24, 32, words, size=d.SMALL)
        does = 'trains, prints, saves' if rank == 0 else 'trains'
        figure.text(left + 12, TOP + 166, does, size=d.SMALL)
