"""Seven puzzles for those who want more: find a schedule that reaches a target, and look at it."""

from collections.abc import Callable
from typing import Any

from mgpu_helpers.scaling import LINKS, Link

from .checking import Hint, check
from .schedules import Order, Played, accumulated, in_buckets, packed, pipelined, sends, sharded

# What a schedule may cost, at most.
TARGETS: dict[str, dict[str, float]] = {
    '1': {'MB summed': 30, 'ms': 62.5},
    '2': {'MB between the servers': 8, 'ms': 1.65},
    '3': {'MB of state on the fullest rank': 20, 'ms': 40.5},
    '4': {'ms': 39.5},
    '5': {'micro-batches kept at a time': 4, 'ms': 21},
    '6': {'steps': 6, 'MB through the busiest port': 2},
    '7': {'pieces received': 20, 'ms': 22},
}
NETWORK = LINKS['25 Gb RoCE']

# How an answer to each puzzle is played.
PLAY: dict[str, Callable[[Any], Played]] = {
    # On one of four devices with room for the activations of 40 examples.
    '1': lambda plan: accumulated(plan, (2, 4, 8, 16), 96, 40, 4, NETWORK),
    # Two servers of four devices, and an array of 4 MB on each.
    '2': lambda allreduce: sends(allreduce, 8, 1_000_000, LINKS['PCIe 3 x16'], NETWORK, 4),
    # Eight tensors on three ranks.
    '3': lambda turns: sharded(turns, (4, 6, 2, 8, 12, 10, 3, 15), 3, Link('3', 5e-4, 4e9)),
    # Six layers over a network with a long latency.
    '4': lambda buckets: in_buckets(
        buckets, (3, 2, 2, 2, 2, 1), (1, 2, 6, 6, 12, 16), Link('4', 2e-3, 2e9)
    ),
    # Four stages and six micro-batches.
    '5': lambda order: pipelined([order(6, stage, 4) for stage in range(4)], 6),
    # Six devices, and an array of 1.2 MB on each.
    '6': lambda allreduce: sends(allreduce, 6, 300_000, LINKS['10 Gb Ethernet']),
    # Four documents on four ranks.
    '7': lambda ranks: packed(ranks, (10, 6, 5, 3), 4, 5e-4),
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


def exercise_1(plan: Any) -> None:
    """Gradient accumulation."""

    def slow(played: Played) -> str:
        sizes = [n for n, _ in plan]
        if len(sizes) > 3:
            return f'{len(sizes)} micro-batches, each of which begins every layer anew; 3 have room'
        return (
            f'sums hide only behind the backward pass of the last micro-batch, which has '
            f'{sizes[-1]} examples'
        )

    reach('1', plan, 'who is summed twice? Gradients add up on a device for nothing', slow)


def exercise_2(two_servers: Callable[..., None]) -> None:
    """A hierarchical allreduce."""

    def slow(played: Played) -> str:
        crossing = sum(s.lane.startswith('server') for s in played.lanes.spans)
        if crossing > 40:
            return f'{crossing} messages cross between the servers, and each pays 14 µs'
        return (
            f'each direction of the network does nothing for {idle(played, "server")}: what could '
            'be on its way while devices still sum, and while they already gather?'
        )

    reach('2', two_servers, 'a server needs no more than the sum of the other one, once', slow)


def exercise_3(turns: Any) -> None:
    """A sharded optimizer."""

    def slow(played: Played) -> str:
        first: dict[str, float] = {}
        for s in played.lanes.spans:
            if s.kind == 'update':
                first.setdefault(s.lane, round(1e3 * s.start, 2))
        late = max(first, key=lambda lane: first[lane])
        return (
            f'the updates of {late} begin at {first[late]:g} ms, and the network does nothing for '
            f'{idle(played, "network")}: who gets the first tensors, and which one comes last?'
        )

    reach('3', turns, '60 MB on three ranks: which tensors make just 20?', slow)


def exercise_4(buckets: Any) -> None:
    """The order and the size of buckets."""

    def slow(_: Played) -> str:
        if len(buckets) > 5:
            return f'{len(buckets)} buckets pay 2 ms each before a byte moves'
        if len(buckets) == 1:
            return 'one bucket leaves when all is computed; a network can send meanwhile'
        flat = [max(bucket) for bucket in buckets]
        if flat == sorted(flat, reverse=True):
            return 'the next step needs layer 0 first, and here it comes last: who could wait?'
        return 'the network should never wait, nor layer 0; the picture shows who does'

    reach('4', buckets, slow)


def exercise_5(my_order: Callable[..., Order]) -> None:
    """The bubble of a pipeline."""

    def slow(played: Played) -> str:
        return (
            f'a stage does nothing for {idle(played, "stage")}; who waits for a forward pass, who '
            'for an inputs pass, and who for a weights pass?'
        )

    reach('5', my_order, 'a micro-batch is kept from its forward pass to its weights pass', slow)


def exercise_6(six: Callable[..., None]) -> None:
    """Halving and doubling for six devices."""
    steps = 'the more is exchanged at once, the fewer steps: 6 is 2 · 3, not 1 · 6'
    mb = 'whole arrays travel, or some devices only help: all six can halve, and then?'
    reach('6', six, steps, mb)


def exercise_7(ranks: Any) -> None:
    """Packed documents on several ranks."""

    def slow(played: Played) -> str:
        busy = {
            f'rank {r}': 1e3 * sum(s.seconds for s in played.lanes.spans if s.lane == f'rank {r}')
            for r in range(4)
        }
        least, most = (f(busy, key=lambda r: busy[r]) for f in (min, max))
        return (
            f'{most} computes for {busy[most]:g} ms, {least} for {busy[least]:g}: what does a '
            'piece take, by its position in its document?'
        )

    reach('7', ranks, 'keys travel to ranks that do not hold them: who shares a document?', slow)
