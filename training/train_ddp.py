"""Step 5: train on several devices that agree, whole or sharded: torchrun --nproc-per-node 2 ..."""

import math
import time
from datetime import timedelta
from pathlib import Path

import checkpoints
import exact
import ranks
import tasks
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

FREE = 'task epochs data checkpoint every keep timeout report log_file num_workers shard device '
FREE += 'real patience digest'  # these options may change at a restart
EPOCH = 'epoch {epoch}, time: {time:.2f} sec, train loss: {train_loss:.6f}, '
EPOCH += 'test loss: {test_loss:.6f}, {score_name}: {score:.4f}'
STEP = 'epoch {epoch}, step {step}, loss: {loss:.6f}, lr: {lr:.3g}, norm: {norm:.4g}, {rate:.0f}/s'
STEP += ', {memory:.0f} MiB' if torch.cuda.is_available() else ''


def options(add):
    exact.options(add)
    add('--checkpoint', type=Path, metavar='DIR', help='save there, and go on from what is there')
    add('--every', type=tasks.some, metavar='N', help='save every N steps, not only each epoch')
    add('--keep', type=tasks.some, default=1, metavar='K', help='keep the last K, and the best')
    add('--patience', type=tasks.some, metavar='K', help='stop after K epochs without improvement')
    add('--report', type=tasks.some, metavar='N', help='print a line every N steps')
    add('--log-file', type=Path, metavar='FILE', help='add all that is printed to it, as JSON')
    add('--device', default='auto', choices=['auto', 'cpu', 'cuda'], help='compute there')
    add('--timeout', type=tasks.some, default=600, help='seconds to wait for others (%(default)s)')
    add('--digest', action='store_true', help='end with a SHA-256 of the parameters')
    add('--shard', action='store_true', help='hold a shard of the network on each rank (FSDP)')
    add('--compile', nargs='?', const='inductor', metavar='BACKEND', help='use torch.compile')
    add('--find-unused', action='store_true', help='allow parameters without a gradient')


def agree(args, task, slow):
    """Find data and checkpoint on each rank; stop all if these, or the options, differ."""
    if args.checkpoint:
        ranks.attempt(slow, ranks.lock, args.checkpoint, on=0)
    if args.log_file:
        ranks.attempt(slow, lambda: open(args.log_file, 'a').close(), on=0)
    examples, tests = ranks.attempt(slow, lambda: [task.read(args, t) for t in (True, False)])
    options = {k: str(v) for k, v in vars(args).items() if k not in FREE.split()}
    options['data'] = [len(examples), len(tests), *ranks.fingerprint(vars(args).get('data'), slow)]
    state, there, sha = ranks.attempt(slow, checkpoints.find, args.checkpoint, options)
    ranks.agree(slow, options=options, checkpoint=sha)
    return examples, tests, options, state, there


def train(args, task):
    rank, size, file = dist.get_rank(), dist.get_world_size(), args.checkpoint
    slow = dist.new_group(backend='gloo', timeout=timedelta(hours=1))  # to read, to save
    asked = ranks.on_sigterm() if file else []
    examples, tests, options, state, there = agree(args, task, slow)
    steps = exact.steps_of(args, task, examples, 0)
    args.steps = args.epochs * len(steps)

    net = task.build(args).to(args.device, args.real)
    model = ranks.parallel(net, args.device, args.shard, [*task.units_of(net)], args.find_unused)
    exact.first_pass(args, task, net, model, examples, steps[0], args.find_unused)
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
        steps = exact.steps_of(args, task, examples, epoch)
        ranks.agree(slow, order=ranks.digest(map(torch.from_numpy, steps)))
        for batches in exact.deal(args, task, examples, steps[done:], epoch, training=True):
            done += 1
            # One step late: on a GPU, this waits for the gradients of that step.
            ending = last_row is not None and last_row[2] > 0
            last_row = exact.step(args, task, model, optimizer, batches, bool(asked))
            rows.append(last_row)
            rate = schedule.get_last_lr()[-1]
            optimizer.step()
            schedule.step()
            due = file and (done == len(steps) or args.every and done % args.every == 0 or ending)
            if due or done == len(steps) or done % (args.report or 100) == 0:
                log += ranks.settle(rows, epoch, done)
            if args.report and done % args.report == 0:
                losses, counts, _, norms = zip(*log[1:][-args.report :], strict=True)
                seconds, last = time.perf_counter() - last, time.perf_counter()
                ranks.tell(STEP, args.log_file, epoch=epoch + 1, step=done, lr=rate, norm=norms[-1],
                           loss=sum(losses) / sum(counts), rate=sum(counts) / seconds,
                           memory=torch.cuda.max_memory_allocated() / 2**20)  # fmt: skip
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
        test_loss, score = exact.evaluate(args, task, net, tests)
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
