"""Step 1: train a network on one device: python step1.py"""

from pathlib import Path

import tasks
import torch
from torch.utils.data import DataLoader, RandomSampler

EPOCH = 'epoch {}, train loss: {:.6f}, test loss: {:.6f}, {}: {:.4f}'


def options(add):
    add('--checkpoint', type=Path, metavar='FILE', help='save there, and go on from what is there')


def evaluate(args, task, net, tests):
    """Return the mean loss and the score on the test set."""
    sums = 0
    net.eval()
    with torch.no_grad():
        for batch in DataLoader(tests, args.batch_size, collate_fn=task.collate):
            batch = task.prepare(tasks.move(batch, args.device), args, False)
            output = task.forward(net, batch)
            found = task.loss_of(output, batch), task.score_of(output, batch), task.count_of(batch)
            sums = sums + torch.tensor(found, dtype=torch.float64)
    net.train()
    return (sums[:2] / sums[2]).tolist()


def train(args, task):
    examples, tests = task.read(args, True), task.read(args, False)
    args.steps = args.epochs * -(-len(examples) // args.batch_size)
    net = task.build(args).to(args.device, args.real)
    optimizer = task.optimizer_of(net, args)
    schedule = task.schedule_of(optimizer, args)
    if args.checkpoint and args.checkpoint.exists():
        net.load_state_dict(torch.load(args.checkpoint, args.device))

    for epoch in range(args.epochs):
        loss = count = 0
        order = RandomSampler(examples, generator=torch.Generator().manual_seed(args.seed + epoch))
        for batch in DataLoader(examples, args.batch_size, sampler=order, collate_fn=task.collate):
            batch = task.prepare(tasks.move(batch, args.device), args, True)
            optimizer.zero_grad()
            mean = task.loss_of(task.forward(net, batch), batch) / task.count_of(batch)
            mean.backward()
            optimizer.step()
            schedule.step()
            loss, count = loss + mean.item() * task.count_of(batch), count + task.count_of(batch)
        test_loss, score = evaluate(args, task, net, tests)
        print(EPOCH.format(epoch + 1, loss / count, test_loss, task.SCORE, score))
        if args.checkpoint:
            torch.save(net.state_dict(), args.checkpoint)


def main():
    args, task = tasks.parse(__doc__, options)
    args.device = 'cuda' if torch.cuda.is_available() else 'cpu'
    train(args, task)


if __name__ == '__main__':
    main()
