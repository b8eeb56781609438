"""Step 5: train on several devices, watched, whole or sharded: torchrun --nproc-per-node 2 ..."""

import math
import time
from contextlib import nullcontext
from datetime import timedelta
from itertools import islice
from pathlib import Path

import checkpoints
import numpy as np
import ranks
import tasks
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import DataLoader
from torch.utils.flop_counter import FlopCounterMode

FREE = (  # may change at a restart
    'task epochs data checkpoint every keep timeout save_timeout report log_file num_workers shard '
    'device real peak patience steps digest'
).split()
EPOCH = 'epoch {epoch}, time: {time:.2f} sec, train loss: {train_loss:.6f}, '
EPOCH += 'test loss: {test_loss:.6f}, {score_name}: {score:.4f}'
STEP = 'epoch {epoch}, step {step}, loss: {loss:.6f}, lr: {lr:.3g}, norm: {norm:.4g}, {rate:.0f}/s'


def options(add):
    add('--num-workers', type=tasks.count, default=0, metavar='N', help='read ahead with N more')
    add('--accumulate', type=tasks.some, default=1, metavar='N', help='micro-batches of a shard')
    add('--clip', type=tasks.above_0, metavar='NORM', help='clip the gradient to this norm')
    add('--drop-last', action='store_true', help='leave out the last step if it is short')
    add('--checkpoint', type=Path, metavar='DIR', help='save there, and go on from what is there')
    add('--every', type=tasks.some, metavar='N', help='save every N steps, not only each epoch')
    add('--keep', type=tasks.some, default=1, metavar='K', help='keep the last K, and the best')
    add('--patience', type=tasks.some, metavar='K', help='end after K epochs that were not better')
    add('--report', type=tasks.some, metavar='N', help='print a line every N steps')
    add('--peak', type=tasks.above_0, metavar='FLOPS', help='report the MFU for such a device')
    add('--log-file', type=Path, metavar='FILE', help='add all that is printed to it, as JSON')
    add('--device', default='auto', choices=['auto', 'cpu', 'cuda'], help='compute there')
    add('--timeout', type=tasks.some, default=600, help='seconds to wait for others (%(default)s)')
    add('--save-timeout', type=tasks.some, default=3600, help='while saving (%(default)s)')
    add('--digest', action='store_true', help='end with a SHA-256 of the parameters')
    add('--shard', action='store_true', help='hold a shard of the network on each rank (FSDP)')
    add('--compile', nargs='?', const='inductor', metavar='BACKEND', help='use torch.compile')
    add('--find-unused', action='store_true', help='allow parameters without a gradient')


def deal(args, task, examples, steps, epoch=0, training=False):
    """Give of each step this rank's shard, in micro-batches: the batch and its weight, 1.

    All ranks must do as many passes: one that has no example left takes the first, with weight 0.
    """
    rank, size, cut = dist.get_rank(), dist.get_world_size(), args.accumulate if training else 1
    shards = [np.array_split(np.array_split(step, size)[rank], cut) for step in steps]
    pieces = [piece for shard in shards for piece in shard]
    if hasattr(examples, 'epoch'):  # what is random in an example depends on both, and its index
        examples.seed, examples.epoch = args.seed, epoch
    own = np.random.default_rng([args.seed, epoch, rank]).integers(2**62)  # seeds the workers
    batches = DataLoader(
        examples, batch_sampler=[piece if len(piece) else [0] for piece in pieces],
        collate_fn=task.collate, num_workers=args.num_workers, pin_memory=args.device == 'cuda',
        worker_init_fn=ranks.no_sigterm, generator=torch.Generator().manual_seed(int(own)),
    )  # fmt: skip
    batches = zip(pieces, batches)
    for _ in steps:
        yield [
            (task.prepare(tasks.move(batch, args.device), args, training), float(len(piece) > 0))
            for piece, batch in islice(batches, cut)
        ]


def autocast(args):
    return torch.autocast(args.device, torch.bfloat16, args.dtype == 'bfloat16')


def step(args, task, model, optimizer, batches, asked=False):
    """Make the gradient of the mean loss.

    Gives this rank's sum of losses, the count of all ranks, how many of them are asked to end, and
    the norm of the gradient before clipping.
    """
    optimizer.zero_grad()
    losses, both = torch.zeros((2, 2), dtype=torch.float64, device=args.device)
    both[0] += sum(weight * task.count_of(batch) for batch, weight in batches)
    both[1] += asked
    summed = dist.all_reduce(both, async_op=True)  # while the first forward pass computes
    for i, (batch, weight) in enumerate(batches, 1):
        if args.shard:
            model.set_requires_gradient_sync(i == len(batches))
        with nullcontext() if args.shard or i == len(batches) else model.no_sync():
            with autocast(args):
                loss = weight * task.loss_of(task.forward(model, batch), batch)
            summed.wait()
            (loss * (dist.get_world_size() / both[0])).backward()  # DDP and FSDP divide by ranks
        losses[0] += loss.detach()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    if args.clip:
        nn.utils.clip_grads_with_norm_(model.parameters(), args.clip, norm)
    norm = norm.full_tensor() if args.shard else norm
    return torch.stack([losses[0], *both, norm.double()])


def evaluate(args, task, net, tests):
    """Give mean loss and score of the tests, over all ranks, by rank 0's running statistics."""
    at_once = max(dist.get_world_size(), args.batch_size // args.accumulate)  # as in training
    steps = np.split(np.arange(len(tests)), range(at_once, len(tests), at_once))
    sums = torch.zeros(3, dtype=torch.float64, device=args.device)
    for buffer in net.buffers():
        dist.broadcast(buffer, 0)
    net.eval()
    with torch.no_grad(), autocast(args):
        for ((batch, weight),) in deal(args, task, tests, steps):
            output = task.forward(net, batch)
            for i, give in enumerate((task.loss_of, task.score_of)):
                sums[i] += weight * give(output, batch)
            sums[2] += weight * task.count_of(batch)
    net.train()
    dist.all_reduce(sums)
    return (sums[:2] / sums[2]).tolist()


def first_pass(args, task, net, model, batch):
    """Do one pass that is no step; give its operations for an example, or token.

    DDP orders its buckets by its first backward pass. That must not be a step: after a restart,
    three ranks would add up in another order than before, and round otherwise.
    """
    before = [buffer.clone() for buffer in net.buffers()]
    kernel = sdpa_kernel(SDPBackend.MATH) if args.device == 'cpu' else nullcontext()  # it counts
    with FlopCounterMode(display=False) as counter, kernel:
        task.loss_of(task.forward(model, batch), batch).backward()
    for buffer, value in zip(net.buffers(), before, strict=True):
        buffer.copy_(value)
    none = [name for name, p in net.named_parameters() if p.requires_grad and p.grad is None]
    if none and not args.find_unused:
        ranks.stop(f'no gradient reaches {none}: freeze them, or use --find-unused')
    net.zero_grad()
    return counter.get_total_flops() / float(task.count_of(batch))


def steps_of(args, task, examples, epoch):
    """Give the epoch's steps, those of one device: which examples each takes."""
    order = np.asarray(task.order_of(examples, np.random.default_rng([args.seed, epoch])))
    steps = np.split(order, range(args.batch_size, len(order), args.batch_size))
    return [step for step in steps if not args.drop_last or len(step) == args.batch_size]


def train(args, task):
    rank, size, file = dist.get_rank(), dist.get_world_size(), args.checkpoint
    slow = dist.new_group(backend='gloo', timeout=timedelta(seconds=args.save_timeout))
    asked = ranks.on_sigterm() if file else []
    if file:
        ranks.attempt(slow, ranks.lock, file, on=0)
    if args.log_file:
        ranks.attempt(slow, lambda: open(args.log_file, 'a').close(), on=0)
    examples, tests = ranks.attempt(slow, lambda: [task.read(args, t) for t in (True, False)])
    steps = steps_of(args, task, examples, 0)
    args.steps = args.epochs * len(steps)
    options = {k: str(v) for k, v in vars(args).items() if k not in FREE}
    sizes = [len(examples), len(tests)]
    options['data'] = sizes + ranks.fingerprint_of(vars(args).get('data'), slow)
    state, there, sha = ranks.attempt(slow, checkpoints.find, file, options)
    ranks.agree(slow, options=options, checkpoint=sha)

    net = task.build(args).to(args.device, args.real)
    model = ranks.parallel(net, args.device, args.shard, [*task.units_of(net)], args.find_unused)
    ((batch, _), *_) = next(deal(args, task, examples, steps[:1], training=True))
    work = first_pass(args, task, net, model, batch)
    torch.manual_seed(size * args.seed + rank)  # each rank draws numbers of its own
    optimizer = task.optimizer_of(net, args)
    if args.compile:
        net.compile(backend=args.compile)  # in place: its parameters keep their names
    schedule = task.schedule_of(optimizer, args)
    if state:
        checkpoints.same_rate(schedule, state['rate'], state['epoch'] * len(steps) + state['done'])
        checkpoints.load(there, net, optimizer, slow)
        schedule.load_state_dict(state['schedule'])
        checkpoints.draw_from(state['random'])
    first, done, tested = state.get('epoch', 0), state.get('done', 0), state.get('tested', [])
    log, rows, last_row = [state.get('total', (0.0,) * 4)], [], None

    for epoch in range(first, args.epochs):
        begin = last = time.perf_counter()
        steps = steps_of(args, task, examples, epoch)
        for batches in deal(args, task, examples, steps[done:], epoch, training=True):
            done += 1
            # All ranks read the number of the step before, for which they need not wait any more.
            ending = last_row is not None and last_row[2] > 0
            last_row = step(args, task, model, optimizer, batches, bool(asked))
            rows.append(last_row)
            rate = schedule.get_last_lr()[-1]
            optimizer.step()
            schedule.step()
            due = file and (done == len(steps) or args.every and done % args.every == 0 or ending)
            if due or done == len(steps) or done % (args.report or 100) == 0:
                log += ranks.settle(rows, epoch, done)
            if args.report and done % args.report == 0:
                ranks.report(args, STEP, log[1:][-args.report :], time.perf_counter() - last, work,
                             epoch=epoch + 1, step=done, lr=rate)  # fmt: skip
                last = time.perf_counter()
            if due:
                ranks.agree_on(net)
                facts = {
                    'schedule': schedule.state_dict(),
                    'random': checkpoints.random_states(args.device, slow),
                    'options': options, 'epoch': epoch, 'done': done, 'tested': tested,
                    'rate': schedule.get_last_lr(), 'total': [sum(column) for column in zip(*log)],
                }  # fmt: skip
                checkpoints.save(file, net, optimizer, facts, slow, args.keep)
            if due and ending:
                ranks.tell('SIGTERM: saved epoch {epoch}, step {step}', epoch=epoch + 1, step=done)
                dist.barrier()
                ranks.leave(143)  # torchrun starts it again, if it may
        loss, count, *_ = (sum(column) for column in zip(*log))
        seconds = time.perf_counter() - begin
        test_loss, score = evaluate(args, task, net, tests)
        if not math.isfinite(test_loss):
            ranks.stop(f'epoch {epoch + 1}: the test loss is {test_loss}')
        ranks.agree_on(net)
        ranks.tell(EPOCH, args.log_file, epoch=epoch + 1, time=seconds, train_loss=loss / count,
                   test_loss=test_loss, score_name=task.SCORE, score=score)  # fmt: skip
        done, log = 0, [(0.0,) * 4]
        tested.append(test_loss)
        if file and test_loss < min(tested[:-1], default=math.inf):
            ranks.attempt(slow, checkpoints.mark_best, file, epoch, len(steps), on=0)
        if args.patience and len(tested) - tested.index(min(tested)) > args.patience:
            break
    if args.digest:
        ranks.tell('{digest}', args.log_file, digest=ranks.digest(net.state_dict().values()))


@record
def main():
    args, task = tasks.parse(__doc__, options)
    args.device = ranks.device_of(args.device)
    with ranks.together(args.device, args.timeout):
        train(args, task)


if __name__ == '__main__':
    main()
