"""Check exercises 6.6 and 6.7: checkpoints that survive a kill, and runs that resume."""

import inspect
import io
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from .checking import Hint, expect, there

OLD, NEW = 'old state', 'new state'


class Killed(BaseException):
    """Raised to simulate SIGKILL: no code in an answer can catch it."""


def exercise_6(my_save: Callable[..., None]) -> None:
    """Check that there is a complete checkpoint, the old or the new one, at every moment."""
    for killed in ('while writing', 'while flushing', 'nowhere'):
        _expect_whole(my_save, killed)


@there
def _expect_whole(my_save: Callable[..., Any], killed: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _save_in(my_save, Path(folder, 'checkpoint.pt'), killed)


def _save_in(my_save: Callable[..., Any], file: Path, killed: str) -> None:
    wrote: list[Path] = []
    flushed: list[Path] = []

    def whole(when: str) -> None:
        there = file.read_text() if file.exists() else 'no byte'
        hint = f'{when}, {file.name} contains {there!r}: a run that is killed then has no '
        hint += 'checkpoint; write under another name, and change this file only with os.replace'
        expect(there in (OLD, NEW), hint)

    def write(path: Any) -> None:
        wrote.append(Path(path))
        wrote[-1].write_text(NEW[:4])
        whole(f'while write({wrote[-1].name}) runs')
        if killed == 'while writing':
            raise Killed
        wrote[-1].write_text(NEW)

    def flush(path: Any) -> None:
        flushed.append(Path(path))
        hint = 'the new file gets its name before it is flushed: write, flush, then rename'
        expect(flushed[-1] != file, hint)
        expect(flushed[-1] in wrote, f'flush({flushed[-1].name}): nothing was written there')
        if killed == 'while flushing':
            raise Killed

    code = getattr(inspect.unwrap(my_save), '__code__', None)
    cell = code and code.co_filename

    def trace(frame: Any, event: str, _: object) -> Any:  # checks the file after each opcode
        if frame.f_code.co_filename == cell:
            frame.f_trace_opcodes = True  # a line may have several opcodes
            whole('between two steps')
            return trace

    file.write_text(OLD)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        my_save(file, write, flush)
    except Killed:
        return whole(f'killed {killed}')
    finally:
        sys.settrace(before)
    expect(wrote, 'nothing was written: call write(path)')
    hint = f'{wrote[-1].parent} may be another disk, and os.replace cannot rename between disks'
    expect(wrote[-1].parent == file.parent, hint)
    expect(flushed, 'nothing was flushed: the new name may reach the disk before the bytes')
    expect(file.read_text() == NEW, f'{file.name} is still the old file at the end: use os.replace')
    hint = f'afterwards {wrote[-1].name} is still there: was it copied? That takes time; rename it'
    expect(not wrote[-1].exists(), hint)
    left = sorted(path.name for path in file.parent.iterdir() if path != file)
    expect(not left, f'extra files are left behind: {", ".join(left)}')


class Run:
    """A small training run with momentum, a learning-rate schedule and random numbers."""

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).double()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9)
        self.schedule = LambdaLR(self.optimizer, lambda step: 1 / (1 + step))

    def steps(self, first: int, last: int) -> list[torch.Tensor]:
        """Take the steps from ``first`` up to, not including, ``last``; return the parameters."""
        for i in range(first, last):
            X = torch.arange(i, i + 12, dtype=torch.float64).view(3, 4).sin()
            self.optimizer.zero_grad()
            self.net(X).square().sum().backward()
            self.optimizer.step()
            self.schedule.step()
        return [p.detach() for p in self.net.parameters()]


class Wrapped(nn.Module):
    """A stand-in for DDP: it holds the network as ``.module``, which prefixes all names."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@there
def saved(my_state: Callable[..., Any], seed: int) -> bytes:
    """Take three steps, and return the state as the bytes of a file."""
    run, file = Run(seed), io.BytesIO()
    run.steps(0, 3)
    state = my_state(Wrapped(run.net), run.optimizer, run.schedule, 3)
    try:
        torch.save(state, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception as error:
        raise Hint(
            f'torch.save, or torch.load with weights_only=True, refuses the state ({error!s:.80}): '
            'store only state_dict()s, tensors and numbers, no objects'
        ) from None
    return file.getvalue()


@there
def resumed(my_resume: Callable[..., Any], state: bytes, seed: int) -> dict[str, Any]:
    """Resume from a saved state, in a run that started with a different seed."""
    new = Run(seed + 1)
    loaded = torch.load(io.BytesIO(state), weights_only=True)
    try:
        done = my_resume(loaded, new.net, new.optimizer, new.schedule)
    except RuntimeError as error:
        hint = "the names differ, since DDP's start with 'module.': save the network inside it"
        expect('module.' not in str(error), hint)
        raise
    found = {
        'done': done, 'at 3': [p.detach().clone() for p in new.net.parameters()],
        'momenta': len(new.optimizer.state), 'step': new.schedule.last_epoch,
        'lr': new.optimizer.param_groups[0]['lr'], 'random': torch.get_rng_state(),
    }  # fmt: skip
    return found | {'at 8': new.steps(done if done == 3 else 8, 8)}


def exercise_7(
    rng: random.Random, my_state: Callable[..., Any], my_resume: Callable[..., Any]
) -> None:
    """Check that a run killed after 3 of 8 steps, then resumed, equals an uninterrupted one."""
    seed = rng.randrange(99)
    state = saved(my_state, seed)
    run = Run(seed)
    run.steps(0, 3)
    state_at_3, at_3 = torch.get_rng_state(), [p.clone() for p in run.net.parameters()]
    whole = run.steps(3, 8)
    new = resumed(my_resume, state, seed)
    hint = 'the loaded parameters differ from the saved ones: was every name found?'
    expect(all(map(torch.equal, new['at 3'], at_3)), hint)
    hint = 'the optimizer starts without its momentum: save its state'
    expect(new['momenta'] == len(run.optimizer.state), hint)
    hint = f'the learning-rate schedule starts over, at step {new["step"]} instead of 3'
    expect(new['step'] == 3 and new['lr'] < 0.1, hint)
    expect(new['done'] == 3, f'my_resume returns {new["done"]}, but 3 steps were done')
    hint = 'dropout draws different random numbers: save torch.get_rng_state(), and restore it last'
    expect(torch.equal(new['random'], state_at_3), hint)
    hint = 'every restored part is right, but after 8 steps the parameters differ'
    expect(all(map(torch.equal, new['at 8'], whole)), hint)
