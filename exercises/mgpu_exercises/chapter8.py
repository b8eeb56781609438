"""Check the exercises of chapter 8: hidden allreduces, links, servers, memory, and the bill."""

import math
from collections.abc import Callable, Sequence

from mgpu_helpers.scaling import LINKS, ring

from .checking import Numbers, expect, expect_value, on_paper


def exercise_1(smallest_batch: Callable[..., float]) -> None:
    """Check the smallest batch that hides an allreduce."""
    for case in (
        (138e6, 31e9, 4, 1e13, 100),
        (8e9, 140e12, 2, 3.5e14, 25),
        (70e6, 1.3e9, 4, 2e13, 40),
        (2**20, 2**19, 4, 1e9, 8),  # 8 examples, without rounding
    ):
        parameters, flops, size, operations, gigabits = case
        port = gigabits * 1e9 / 8
        exact = parameters * size * operations / (flops * port)
        uses = math.ceil(size / 2 * operations / port)
        mistakes = {
            'a batch has whole examples: round up': exact,
            'with so few examples, sending takes longer: round up': math.floor(exact),
            'it divides evenly, so one example fewer is enough': exact + 1,
            f'{gigabits} Gb/s counts bits, and a byte has eight': math.ceil(exact / 8),
            'in a ring each byte passes a port twice': math.ceil(exact / 2),
            'the backward pass takes twice the operations of the forward pass': math.ceil(
                2 * exact
            ),
            'nothing is sent before the backward pass starts': math.ceil(exact * 2 / 3),
            'this counts uses of a parameter; one example uses a parameter more than once': uses,
        }
        hint = 'compare 2 * flops operations per example with all bytes through the port, twice'
        what = f'{parameters:g} parameters of {size} bytes, {flops:g} operations, '
        what += f'{operations:g} per second, {gigabits} Gb/s gave {{}}'
        expect_value(smallest_batch(*case), math.ceil(exact), what, mistakes, hint)


def exercise_2(fit: Callable[..., Sequence[float]]) -> None:
    """Check latency and bandwidth, computed from two round trips."""
    for alpha, bandwidth, n1, n2 in ((14e-6, 3.125e9, 1000, 10**6), (1e-3, 1e8, 64, 10**7)):
        t1, t2 = (2 * (alpha + n / bandwidth) for n in (n1, n2))
        found = tuple(fit(n1, t1, n2, t2))
        case = f'{n1:,} bytes in {t1:.4g} s, {n2:,} in {t2:.4g} s'
        expect(len(found) == 2, f'{found}; return two numbers, latency and bandwidth', case)
        mistakes = {
            'there and back are two messages': 2 * alpha,
            'the shorter message has bytes, too, which take time': t1 / 2,
        }
        hint = f'not {alpha:g}: latency is the time of a message without its bytes'
        expect_value(found[0], alpha, f'{case}: latency {{}}', mistakes, hint, 1e-6)
        mistakes = {
            'there and back are two messages': bandwidth / 2,
            'each time includes latency: only their difference is due to bytes': 2 * n2 / t2,
            'this is in seconds per byte': 1 / bandwidth,
            'this is in bits per second': 8 * bandwidth,
        }
        hint = f'not {bandwidth:.4g}: divide the extra bytes by the extra time'
        expect_value(found[1], bandwidth, f'{case}: bandwidth {{}}', mistakes, hint, 1e-6)


def exercise_3(crossing: Callable[..., float]) -> None:
    """Check the size above which a ring is faster than a tree."""
    for k, alpha, bandwidth in ((4, 1e-5, 1e9), (64, 14e-6, 12.5e9), (1024, 3.4e-6, 3e11)):
        rounds, unit, in_seconds = math.log2(k), alpha * bandwidth, alpha / bandwidth

        def meet(up: float = 2 * rounds, around: int = 2 * (k - 1), unit: float = unit) -> float:
            """Solve for the size, given the steps with whole arrays and those with slices."""
            return unit * (around - up) / (up - around / k)  # noqa: B023

        mistakes = {
            'this goes up the tree only; the sum comes down again': meet(up=rounds),
            'this goes around the ring once; the sums go around again': meet(around=k - 1),
            'multiply latency by bandwidth; dividing does not give bytes': meet(unit=in_seconds),
            'this is latency times bandwidth; how many steps does each algorithm take?': unit,
            'a tree has log2(k) rounds up, not ln(k)': meet(up=2 * math.log(k)),
            'in each step of the ring, 1/k of the array travels': -unit,
        }
        hint = f'not {meet():.4g}: write both times as steps * (alpha + bytes / bandwidth)'
        case = f'{k} devices, {alpha:g} s, {bandwidth:g} bytes/s gave {{}}'
        expect_value(crossing(k, alpha, bandwidth), meet(), case, mistakes, hint, 1e-4)


@on_paper(
    billions=(7, 13, 34, 70),
    billion_tokens=(300, 500, 800, 2000),
    gpus=(256, 512, 1024),
    percent=(28, 38, 42),
    dollars=(2, 3, 4),
)
def exercise_4(numbers: Numbers, gpu_hours: float, days: float, dollars: float) -> None:
    """Check GPU hours, days and dollars, computed on paper."""
    billions, tokens, gpus, percent, price = numbers.values()
    hours = 6e18 * billions * tokens / (989e10 * percent) / 3600
    mistakes = {
        'this is the forward pass only; the backward pass takes twice as much': hours / 3,
        'this is the backward pass only; add the forward pass': hours * 2 / 3,
        'a multiplication and an addition are two operations': hours / 2,
        f'this assumes full use of the GPUs; they reach {percent}% of their peak': hours
        * percent
        / 100,
        'these are seconds, not hours': hours * 3600,
        'this is how long the run takes: add up the hours of all GPUs': hours / gpus,
    }
    hint = 'multiply parameters by tokens: 2 operations forward, 4 backward'
    expect_value(gpu_hours, hours, '{} GPU hours', mistakes, hint, 0.02)
    mistakes = {f'{gpus} GPUs work at the same time': hours / 24, 'these are hours': hours / gpus}
    expect_value(days, hours / gpus / 24, '{} days', mistakes, 'divide by GPUs and 24', 0.02)
    mistakes = {f'this is for one GPU; you pay for {gpus}': hours / gpus * price}
    expect_value(dollars, hours * price, '{} dollars', mistakes, 'multiply by the price', 0.02)


def exercise_5(in_levels: Callable[..., float]) -> None:
    """Check hierarchical sums over servers with several ports."""
    for n, gpus, servers, ports, *names in (
        (102e6, 8, 2, 1, 'NVLink 2', '25 Gb RoCE'),
        (552e6, 8, 16, 4, 'NVLink 3', '100 Gb InfiniBand'),
        (1e6, 6, 3, 2, 'PCIe 4 x16', '10 Gb Ethernet'),
    ):
        inside, network = (LINKS[name] for name in names)
        one_ring = ring(gpus * servers, n, network)
        within, between = ring(gpus, n, inside), ring(servers, n / ports, network)
        uncut = within + 2 * (servers - 1) * network.seconds(n / ports)
        each_all, one_port, shared = (
            within + ring(servers, size, network) for size in (n * gpus / ports, n / gpus, n)
        )
        mistakes = {
            'this is one ring over all devices; here a ring has one member per server': one_ring,
            'within a server a device sends only slices': each_all,
            'the slices of all devices of a server leave through its ports': one_port,
            'the ports share what leaves the server': shared,
            'add the time of the sums within the servers': between,
            'this is half: an all-gather takes as long as a reduce-scatter': (within + between) / 2,
            'the ring splits the bytes of a port into one slice per server': uncut,
        }
        right = within + between
        hint = f'not {right:.4g}: add the times of two rings, over devices and over servers'
        case = f'{n:g} bytes, {servers} servers of {gpus}, {ports} port(s) gave {{}}'
        found = in_levels(n, gpus, servers, ports, inside, network)
        expect_value(found, right, case, mistakes, hint, 1e-6)


def exercise_6(devices_needed: Callable[..., int]) -> None:
    """Check the number of devices that each stage of ZeRO needs."""

    def fewest(stage: int, kept: float = 1, shared: float = 0) -> int:
        """Return the fewest devices that suffice if activations are kept or shared in part."""
        parts = [12 * parameters, 2 * parameters, 2 * parameters]
        room = memory - kept * activations - sum(parts[stage:])
        needed = sum(parts[:stage]) + shared * activations
        return max(1, math.ceil(needed / room)) if room > 0 else 0

    for parameters, memory, activations in (
        (13e9, 80e9, 30e9),
        (3.1e9, 24e9, 4e9),
        (1e9, 8e10, 3e10),
        (1e9, 16e9, 8e9),  # divides evenly
    ):
        for stage in range(4):
            found, right = devices_needed(parameters, stage, memory, activations), fewest(stage)
            mistakes = {
                'each device stores its own activations, at every stage': fewest(stage, kept=0),
                'no stage shards activations': fewest(stage, kept=0, shared=1),
                'only the next stage shards that much': fewest(min(stage + 1, 3)),
                'this stage shards more than that': fewest(max(stage - 1, 0)),
                'this is one device too few to fit: round up': right - 1,
            }
            case = f'{parameters:g} parameters, stage {stage}, {memory:g} bytes, of which '
            case += f'{activations:g} for activations, gave {found}'
            hint = 'the unsharded part does not fit, so the answer is 0'
            expect(not found or found > 0, hint, case)
            hint = f'not {right}: divide the sharded bytes by the memory left on each device'
            if right == 0:
                hint = 'the unsharded part does not fit on one device, and more devices do not help'
            elif found == 0:
                hint = 'the unsharded part leaves some memory, so it fits on enough devices'
            expect_value(found, right, case, mistakes, hint)
