"""Check three extra puzzles: find a schedule that meets a target, and draw it."""

from collections.abc import Callable
from typing import Any

from mgpu_helpers.scaling import LINKS

from .checking import Hint, check
from .schedules import Order, Played, pipelined, sends

# The most that a schedule may cost.
TARGETS: dict[str, dict[str, float]] = {
    '1': {'MB between the servers': 8, 'ms': 1.65},
    '2': {'micro-batches kept at a time': 4, 'ms': 21},
    '3': {'rounds': 6, 'MB through the busiest port': 2},
}

# How the answer to each puzzle is simulated.
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
    """Draw the schedule of an answer to a puzzle, with its score and the target.

    If it cannot be simulated, return the hint of ``check``.
    """
    puzzle = number.partition('.')[2]
    try:
        lanes, score = PLAY[puzzle](answer)
    except Exception:  # any error from a student's function
        return check(number, answer)
    targets = TARGETS[puzzle].items()
    reached = ', '.join(f'{score[unit]:.4g} {unit} (target {most:g})' for unit, most in targets)
    lanes.title = f'{number}: {reached}'
    return lanes.plot()


def reach(puzzle: str, answer: Any, *hints: Any) -> None:
    """Raise the hint of the first target missed; a hint may be a function of the result."""
    played = PLAY[puzzle](answer)
    for (unit, most), hint in zip(TARGETS[puzzle].items(), hints, strict=True):
        if played.score[unit] > most * (1 + 1e-9):
            case = f'{played.score[unit]:.4g} {unit}, and the target is {most:g}'
            raise Hint(f'{case}: {hint(played) if callable(hint) else hint}')


def idle(played: Played, lane: str) -> str:
    """Format the mean idle time, in ms, of lanes whose names start with ``lane``."""
    spans = [s for s in played.lanes.spans if s.lane.startswith(lane)]
    lanes, ends = {s.lane for s in spans}, played.lanes.seconds
    return f'{1e3 * (ends - sum(s.seconds for s in spans) / len(lanes)):.4g} ms'


def exercise_1(two_servers: Callable[..., None]) -> None:
    """Check a hierarchical allreduce."""

    def slow(played: Played) -> str:
        crossing = sum(s.lane.startswith('server') for s in played.lanes.spans)
        if crossing > 40:
            return f'{crossing} messages cross between the servers, and each pays 14 µs'
        return (
            f'each direction of the network is idle for {idle(played, "server")}: what could '
            'travel while devices still sum, and while they already gather?'
        )

    reach('1', two_servers, 'a server needs only the sum of the other server, once', slow)


def exercise_2(my_order: Callable[..., Order]) -> None:
    """Check the bubble of a pipeline."""

    def slow(played: Played) -> str:
        return (
            f'a stage is idle for {idle(played, "stage")}; what waits for a forward pass, what '
            'waits for an inputs pass, and what waits for a weights pass?'
        )

    reach('2', my_order, 'a micro-batch is kept from its forward pass to its weights pass', slow)


def exercise_3(six: Callable[..., None]) -> None:
    """Check halving and doubling for six devices."""
    rounds = 'larger exchanges take fewer rounds: 6 is 2 · 3, not 1 · 6'
    mb = 'whole arrays travel, or some devices only help: first let all six halve; what then?'
    reach('3', six, rounds, mb)
