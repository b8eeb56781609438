"""Six puzzles for those who want more: find a schedule that reaches a target, and look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mgpu_helpers.scaling import LINKS, Link

from .checking import Hint, Verdict, check
from .schedules import Order, Played, accumulated, in_buckets, pipelined, sends, sharded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What a schedule may cost, at most.
TARGETS: dict[str, dict[str, float]] = {
    '1': {'MB summed': 30, 'ms': 62.5},
    '2': {'MB between the servers': 8, 'ms': 1.65},
    '3': {'MB of state on the fullest rank': 20, 'ms': 40.5},
    '4': {'ms': 39.5},
    '5': {'micro-batches kept at a time': 4, 'ms': 21},
    '6': {'steps': 6, 'MB through the busiest port': 2},
}
STAGES, MICRO_BATCHES = 4, 6
NETWORK = LINKS['25 Gb RoCE']


def play_1(plan: Any) -> Played:
    """Micro-batches on one of four devices that have room for the activations of 40 examples."""
    return accumulated(plan, (2, 4, 8, 16), 96, 40, 4, NETWORK)


def play_2(allreduce: Callable[[Any], None]) -> Played:
    """Two servers of four devices, and an array of 4 MB on each."""
    return sends(allreduce, 8, 1_000_000, LINKS['PCIe 3 x16'], NETWORK, 4)[0]


def play_3(turns: Any) -> Played:
    """Eight tensors on three ranks."""
    return sharded(turns, (4, 6, 2, 8, 12, 10, 3, 15), 3, Link('of puzzle 3', 5e-4, 4e9))


def play_4(buckets: Any) -> Played:
    """Six layers over a network with a long latency."""
    return in_buckets(
        buckets, (3, 2, 2, 2, 2, 1), (1, 2, 6, 6, 12, 16), Link('of puzzle 4', 2e-3, 2e9)
    )


def play_5(order: Callable[[int, int, int], Order]) -> Played:
    """Four stages and six micro-batches."""
    return pipelined([order(MICRO_BATCHES, s, STAGES) for s in range(STAGES)], MICRO_BATCHES)


def play_6(allreduce: Callable[[Any], None]) -> Played:
    """Six devices, and an array of 1.2 MB on each."""
    played, found = sends(allreduce, 6, 300_000, LINKS['10 Gb Ethernet'])
    score = {'steps': found.steps, 'MB through the busiest port': found.busiest / 1e6}
    return Played(played.lanes, played.score | score)


PLAY: dict[str, Callable[[Any], Played]] = {
    '1': play_1, '2': play_2, '3': play_3, '4': play_4, '5': play_5, '6': play_6,
}  # fmt: skip


def picture(number: str, answer: Any) -> Figure | Verdict:
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


def reach(puzzle: str, answer: Any, **hints: Callable[[Played], str]) -> None:
    """Raise a hint, by the unit that misses its target, with score and target."""
    played = PLAY[puzzle](answer)
    for unit, most in TARGETS[puzzle].items():
        found = played.score[unit]
        if found > most * (1 + 1e-9):
            words = hints[unit.split()[0].replace('-', '_')](played)
            raise Hint(f'{found:.4g} {unit}, and the target is {most:g}: {words}')


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

    reach('1', plan, MB=lambda _: 'who is summed twice? Gradients add up on a device for nothing',
          ms=slow)  # fmt: skip


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

    reach('2', two_servers, ms=slow,
          MB=lambda _: 'a server needs no more than the sum of the other one, once')  # fmt: skip


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

    reach('3', turns, MB=lambda _: '60 MB on three ranks: which tensors make just 20?', ms=slow)


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

    reach('4', buckets, ms=slow)


def exercise_5(my_order: Callable[..., Order]) -> None:
    """The bubble of a pipeline."""
    reach(
        '5',
        my_order,
        micro_batches=lambda _: 'a micro-batch is kept from its forward pass to its weights pass',
        ms=lambda played: (
            f'a stage does nothing for {idle(played, "stage")}; who waits for a forward pass, who '
            'for an inputs pass, and who for a weights pass?'
        ),
    )


def exercise_6(six: Callable[..., None]) -> None:
    """Halving and doubling for six devices."""
    reach(
        '6',
        six,
        steps=lambda _: 'the more is exchanged at once, the fewer steps: 6 is 2 · 3, not 1 · 6',
        MB=lambda _: 'whole arrays travel, or some devices only help: all six can halve, and then?',
    )
