"""Three puzzles for those who want more: find a schedule that reaches a target, and look at it."""

from collections.abc import Callable
from typing import Any

from mgpu_helpers.scaling import LINKS

from .checking import Hint, check
from .schedules import Order, Played, pipelined, sends

# What a schedule may cost, at most.
TARGETS: dict[str, dict[str, float]] = {
    '1': {'MB between the servers': 8, 'ms': 1.65},
    '2': {'micro-batches kept at a time': 4, 'ms': 21},
    '3': {'steps': 6, 'MB through the busiest port': 2},
}

# How an answer to each puzzle is played.
PLAY: dict[str, Callable[[Any], Played]] = {
    # Two servers of four devices, and an array of 4 MB on each.
    '1': lambda allreduce: sends(
        allreduce, 8, 1_000_000, LINKS['PCIe 3 x16'], LINKS['25 Gb RoCE'], 4
    ),
    # Four stages and six micro-batches.
    '2': lambda order: pipelined([order(6, stage, 4) for stage in range(4)], 6),
    # Six devices, and an array of 1.2 MB on each.
    '3': lambda allreduce: sends(allreduce, 6, 300_000, LINKS['10 Gb Ethernet']),
}


def picture(number: str, answer: Any) -> Any:
    """Draw the schedule that an answer to a puzzle makes, with its score and the target.

    What cannot be played is told, as ``check`` tells it.
    """
    puzzle = number.partition('.')[2]
    try:
        lanes, score = PLAY[puzzle](answer)
    except Exception:  # whatever a student's function raises
        return check(number, answer)
    targets = TARGETS[puzzle].items()
    reached = ', '.join(f'{score[unit]:.4g} {unit} (target {most:g})' for unit, most in targets)
    lanes.title = f'{number}: {reached}'
    return lanes.plot()


def reach(puzzle: str, answer: Any, *hints: Any) -> None:
    """Raise the hint of the first target that is missed; a function makes it of what was played."""
    played = PLAY[puzzle](answer)
    for (unit, most), hint in zip(TARGETS[puzzle].items(), hints, strict=True):
        if played.score[unit] > most * (1 + 1e-9):
            case = f'{played.score[unit]:.4g} {unit}, and the target is {most:g}'
            raise Hint(f'{case}: {hint(played) if callable(hint) else hint}')


def idle(played: Played, lane: str) -> str:
    """Say how long lanes whose names begin so do nothing, in milliseconds."""
    spans = [s for s in played.lanes.spans if s.lane.startswith(lane)]
    lanes, ends = {s.lane for s in spans}, played.lanes.seconds
    return f'{1e3 * (ends - sum(s.seconds for s in spans) / len(lanes)):.4g} ms'


def exercise_1(two_servers: Callable[..., None]) -> None:
    """A hierarchical allreduce."""

    def slow(played: Played) -> str:
        crossing = sum(s.lane.startswith('server') for s in played.lanes.spans)
        if crossing > 40:
            return f'{crossing} messages cross between the servers, and each pays 14 µs'
        return (
            f'each direction of the network is idle for {idle(played, "server")}: what could '
            'travel while devices still sum, and while they already gather?'
        )

    reach('1', two_servers, 'a server only needs the sum of the other one, once', slow)


def exercise_2(my_order: Callable[..., Order]) -> None:
    """The bubble of a pipeline."""

    def slow(played: Played) -> str:
        return (
            f'a stage is idle for {idle(played, "stage")}; what waits for a forward pass, what '
            'for an inputs pass, and what for a weights pass?'
        )

    reach('2', my_order, 'a micro-batch is kept from its forward pass to its weights pass', slow)


def exercise_3(six: Callable[..., None]) -> None:
    """Halving and doubling for six devices."""
    steps = 'larger exchanges take fewer steps: 6 is 2 · 3, not 1 · 6'
    mb = 'whole arrays travel, or some devices only help: all six can halve; what then?'
    reach('3', six, steps, mb)
