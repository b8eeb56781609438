"""A GPT that learns this file, on a mesh: layers split in a row, parameters sharded between rows.

    torchrun --nproc-per-node 4 parallel.py --tensor 2 --dtype float64 --checkpoint runs/gpt

The order of the wrappers is torchtitan's. Layers are split first, because the others must find them
as they will be; then recomputed; sharded last.
"""

import argparse
import os
from pathlib import Path

import checkpoints
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor import parallel as tp

WIDTH, HEADS, LAYERS, TOKENS, VOCABULARY = 64, 4, 3, 32, 256


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):  # (n, t, width) to the same; of the heads only this rank's, hence -1
        shape = *x.shape[:2], -1, WIDTH // HEADS
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.query, self.key, self.value))
        a = F.scaled_dot_product_attention(rotary(q), rotary(k), v, is_causal=True)
        return self.out(a.transpose(1, 2).flatten(2))


def rotary(x):
    """Turn pairs of numbers of x (n, heads, t, d) by angles that grow with the position."""
    a, b = x.chunk(2, dim=-1)
    turns = torch.outer(torch.arange(x.shape[2]), 100.0 ** -torch.linspace(0, 1, a.shape[3])).to(x)
    return torch.cat([a * turns.cos() - b * turns.sin(), a * turns.sin() + b * turns.cos()], -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.RMSNorm(WIDTH), Attention(), nn.RMSNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


def gpt():
    """Make the network: tokens (n, t) to scores (n, t, vocabulary)."""
    blocks = [Block() for _ in range(LAYERS)]
    head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *blocks, *head)


def split_layers(net, mesh):
    """Split each layer among the ranks of a row; between layers, split the positions instead."""
    add_up = tp.RowwiseParallel(output_layouts=Shard(1))  # a reduce-scatter, no allreduce
    gather = tp.PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Replicate())
    plan = {
        '0': tp.RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        f'{LAYERS + 1}': tp.SequenceParallel(),
        # Scores stay split by class: `loss_parallel` sends a few numbers a token, not 256.
        f'{LAYERS + 2}': tp.ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    }
    for i in range(1, LAYERS + 1):
        plan |= {f'{i}.norm1': tp.SequenceParallel(), f'{i}.norm2': tp.SequenceParallel()}
        plan |= {f'{i}.attention': gather, f'{i}.attention.out': add_up, f'{i}.narrow': add_up}
        plan |= {f'{i}.attention.{n}': tp.ColwiseParallel() for n in ('query', 'key', 'value')}
        plan[f'{i}.wide'] = tp.ColwiseParallel(input_layouts=Shard(1))
    tp.parallelize_module(net, mesh, plan)


def wrap(net, mesh, dtype):
    """Apply activation checkpointing and sharding to each block; the root shards the rest."""
    rows = mesh['replica', 'shard']  # with several replicas this is HSDP
    both = {'param_dtype': torch.bfloat16, 'reduce_dtype': torch.float32}  # gradients: the latter
    policy = MixedPrecisionPolicy(**both if dtype == 'bfloat16' else {})
    for i in range(1, LAYERS + 1):
        net[i] = checkpoint_wrapper(net[i])
        fully_shard(net[i], mesh=rows, mp_policy=policy)
    fully_shard(net, mesh=rows, mp_policy=policy)  # `output_dtype` here alone: it has the last norm


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--tensor', type=int, default=1, help='ranks that split each layer')
    parser.add_argument('--replicas', type=int, default=1, help='copies of the network (HSDP)')
    parser.add_argument('--steps', type=int, default=10)
    parser.add_argument('--batch', type=int, default=16, help='total sequences per step')
    parser.add_argument('--dtype', choices=['float64', 'float32', 'bfloat16'], default='float32')
    parser.add_argument('--checkpoint', type=Path, help='folder to save to and resume from')
    args = parser.parse_args()

    device = torch.accelerator.current_accelerator() or torch.device('cpu')
    rows = int(os.environ['WORLD_SIZE']) // args.tensor
    sizes = args.replicas, rows // args.replicas, args.tensor
    mesh = dist.init_device_mesh(device.type, sizes, mesh_dim_names=('replica', 'shard', 'tensor'))
    torch.manual_seed(0)
    net = gpt().to(device, torch.float64 if args.dtype == 'float64' else torch.float32)
    split_layers(net, mesh['tensor'])
    wrap(net, mesh, args.dtype)  # only after this does `to_empty` keep tied weights tied
    done, optimizer = 0, torch.optim.AdamW(net.parameters(), lr=3e-3)
    facts, newest, _ = checkpoints.find(args.checkpoint)
    if newest:
        checkpoints.load(newest, net, optimizer)  # each rank reads what it needs on today's mesh
        done = facts['done']
    text = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long()
    group = mesh['replica', 'shard']._flatten().get_group()
    for step in range(done + 1, args.steps + 1):
        chance = torch.Generator().manual_seed(step)  # the same on all ranks of every mesh
        starts = torch.randint(len(text) - TOKENS, (args.batch,), generator=chance)
        starts = starts.tensor_split(rows)[dist.get_rank(group)]
        mine = torch.stack([text[i : i + TOKENS + 1] for i in starts]).to(device)
        with tp.loss_parallel():
            scores = net(mine[:, :-1]).flatten(0, 1)
            loss = F.cross_entropy(scores, mine[:, 1:].flatten(), reduction='sum')
            # `fully_shard` takes the mean over the rows: times their number, it is the sum.
            (loss * rows / (args.batch * TOKENS)).backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0).full_tensor()  # over all ranks
        optimizer.step()
        optimizer.zero_grad()
        total = loss.full_tensor().detach() / (args.batch * TOKENS)
        dist.all_reduce(total, group=group)
        if dist.get_rank() == 0:
            print(f'step {step}: loss {total:.12f}, norm of the gradient {norm:.12f}', flush=True)
    if args.checkpoint and done < args.steps:
        checkpoints.save(args.checkpoint, net, optimizer, {'epoch': 0, 'done': args.steps})
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
