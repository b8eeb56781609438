import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group('gloo')  # 'nccl' between GPUs
rank, size = dist.get_rank(), dist.get_world_size()
torch.set_default_dtype(torch.float64)  # so that losses can be compared to the last digits
torch.manual_seed(rank)  # on purpose: each rank draws initial parameters of its own
net = nn.Sequential(
    nn.Conv2d(1, 20, 3), nn.ReLU(), nn.AvgPool2d(2),
    nn.Conv2d(20, 50, 5), nn.ReLU(), nn.AvgPool2d(2),
    nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Linear(128, 10),
)  # fmt: skip
for tensor in [*net.parameters(), *net.buffers()]:
    dist.broadcast(tensor.detach(), src=0)  # all begin with rank 0's values
params = list(net.parameters())[::-1]  # from the last layer to the first
ready, works = set(), []


def arrived(param):
    """Start the allreduces whose turn has come; PyTorch calls this when a gradient is there."""
    ready.add(param)
    while len(works) < len(params) and params[len(works)] in ready:
        grad = params[len(works)].grad.div_(size)
        works.append(dist.all_reduce(grad, async_op=True))


for p in params:
    p.register_post_accumulate_grad_hook(arrived)
clothes = np.load('clothes.npz')
examples = TensorDataset(torch.from_numpy(clothes['X']), torch.from_numpy(clothes['y']))
sampler = DistributedSampler(examples)
loader = DataLoader(examples, batch_size=64 // size, sampler=sampler)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)  # another order in each epoch
    total = torch.zeros(())
    for X, y in loader:
        loss = nn.functional.cross_entropy(net(X), y)
        optimizer.zero_grad()
        loss.backward()
        for work in works:
            work.wait()
        ready.clear()
        works.clear()
        optimizer.step()
        total += loss.detach() / len(loader)
    dist.all_reduce(total)  # now the sum over the ranks
    norms = torch.zeros(size)
    norms[rank] = nn.utils.parameters_to_vector(net.parameters()).detach().norm()
    dist.all_reduce(norms)  # now the norm of each rank's parameters
    if rank == 0:
        print(f'epoch {epoch}: loss {total.item() / size:.12f}, norms {norms.numpy().round(9)}')
dist.destroy_process_group()
