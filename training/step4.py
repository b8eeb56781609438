"""Step 4: killed, it goes on bit for bit: torchrun --nproc-per-node 2 --max-restarts 3 step4.py"""

from pathlib import Path

import checkpoints
import exact
import ranks
import tasks
import torch
import torch.distributed as dist
from step1 import EPOCH
from torch import nn


def options(add):
    exact.options(add)
    add('--checkpoint', type=Path, metavar='DIR', help='save there, and go on from what is there')
    add('--every', type=tasks.some, metavar='N', help='save every N steps, not only each epoch')
    add('--digest', action='store_true', help='end with a SHA-256 of the parameters')


def train(args, task):
    rank, size = dist.get_rank(), dist.get_world_size()
    examples, tests = task.read(args, True), task.read(args, False)
    steps = exact.steps_of(args, task, examples, 0)
    args.steps = args.epochs * len(steps)
    state, there, _ = checkpoints.find(args.checkpoint)

    net = task.build(args).to(args.device, args.real)
    model = nn.parallel.DistributedDataParallel(net)
    exact.first_pass(args, task, net, model, examples, steps[0])
    torch.manual_seed(size * args.seed + rank)  # each rank draws numbers of its own
    optimizer = task.optimizer_of(net, args)
    schedule = task.schedule_of(optimizer, args)
    if state:
        checkpoints.load(there, net, optimizer)
        schedule.load_state_dict(state['schedule'])
        checkpoints.draw_from(state['random'])
    first, done = state.get('epoch', 0), state.get('done', 0)
    log = [state.get('total', (0.0,) * 4)]

    for epoch in range(first, args.epochs):
        steps = exact.steps_of(args, task, examples, epoch)
        for batches in exact.deal(args, task, examples, steps[done:], epoch, training=True):
            done += 1
            row = exact.step(args, task, model, optimizer, batches)
            dist.all_reduce(row[:1])
            log.append(row.tolist())
            optimizer.step()
            schedule.step()
            if args.checkpoint and (done == len(steps) or args.every and done % args.every == 0):
                facts = {
                    'schedule': schedule.state_dict(),
                    'random': checkpoints.random_states(args.device),
                    'epoch': epoch, 'done': done, 'total': [sum(column) for column in zip(*log)],
                }  # fmt: skip
                checkpoints.save(args.checkpoint, net, optimizer, facts)
        loss, count, *_ = (sum(column) for column in zip(*log))
        test_loss, score = exact.evaluate(args, task, net, tests)
        if rank == 0:
            print(EPOCH.format(epoch + 1, loss / count, test_loss, task.SCORE, score))
        done, log = 0, [(0.0,) * 4]
    if args.digest and rank == 0:
        print(ranks.digest(net.state_dict().values()))


def main():
    args, task = tasks.parse(__doc__, options)
    args.device = ranks.device_of('auto')
    with ranks.together(args.device, 600):
        train(args, task)


if __name__ == '__main__':
    main()
