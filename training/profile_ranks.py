"""What two ranks did, and when: a trace of three steps each, for chapter 3's `read_traces`.

    torchrun --nproc-per-node 2 profile_ranks.py                 # as much work for each
    torchrun --nproc-per-node 2 profile_ranks.py --straggler 3   # three times as much for the last

writes rank-0.json and rank-1.json, which https://ui.perfetto.dev opens as well.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile

parser = argparse.ArgumentParser()
parser.add_argument('--straggler', type=int, default=1, help='times the work for the last rank')
straggler = parser.parse_args().straggler

dist.init_process_group('nccl' if torch.cuda.is_available() else 'gloo')
rank, world_size = dist.get_rank(), dist.get_world_size()
device = torch.device('cuda', rank) if torch.cuda.is_available() else torch.device('cpu')
if device.type == 'cpu':
    torch.set_num_threads(1)  # a rank is one core

torch.manual_seed(0)
net = nn.Sequential(
    *(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.AvgPool2d(2)),
    *(nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
    *(nn.Linear(800, 1024), nn.ReLU(), nn.Linear(1024, 10)),
)
net = DistributedDataParallel(net.to(device), bucket_cap_mb=0.1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
n = 128 * (straggler if rank == world_size - 1 else 1)
X, y = torch.randn(n, 1, 28, 28, device=device), torch.randint(10, (n,), device=device)


def step():
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(X), y).backward()
    optimizer.step()


for _ in range(5):  # the first steps ask for memory, and arrange the buckets
    step()
dist.barrier()
with profile() as profiler:
    for _ in range(3):
        step()
profiler.export_chrome_trace(f'rank-{rank}.json')
dist.barrier()  # nobody leaves while another still writes
dist.destroy_process_group()
