"""Wrong answers to the exercises of chapter 8, each with a part of the hint that it gets."""

import math

from mgpu_exercises import given
from mgpu_helpers.scaling import ring

from .chapter8_idioms import RIGHT as RIGHT


def smallest(rounded=math.ceil, passes=2, backward=2, byte=8):
    """Return the batch for these passes through the port, backward passes, and bits per byte."""

    def smallest_batch(parameters, flops, value_bytes, operations, gigabits):
        sending = passes * parameters * value_bytes / (gigabits * 1e9 / byte)
        return rounded(sending / (backward * flops / operations))

    return smallest_batch


def fit(messages=2, unit=1):
    def two_points(n1, t1, n2, t2):
        bandwidth = (n2 - n1) / ((t2 - t1) / messages)
        return t1 / messages - n1 / bandwidth, bandwidth * unit

    return two_points


def crossing(k, alpha, bandwidth, up=2, around=2, log=math.log2):
    up, around = up * log(k), around * (k - 1)
    return alpha * bandwidth * (around - up) / (up - around / k)


ADA = given('8.4', 'Ada')
BILLIONS, TOKENS, GPUS, PERCENT, PRICE = ADA.values()
HOURS = 6e18 * BILLIONS * TOKENS / (989e10 * PERCENT) / 3600
DAYS, DOLLARS = HOURS / GPUS / 24, HOURS * PRICE


def levels(between, within=1, factor=1):
    def in_levels(nbytes, gpus, servers, ports, inside, network):
        inner = within * ring(gpus, nbytes, inside)
        return factor * (inner + between(nbytes, gpus, servers, ports, network))

    return in_levels


def right_between(n, gpus, servers, ports, network):
    return ring(servers, n / ports, network)


def fits(shared=1, kept=1, later=0, up=math.ceil, never=0):
    """Return the number of devices, with activations kept or shared, or the wrong stage."""

    def devices_needed(parameters, stage, memory, activations):
        stage = min(3, max(0, stage + later))
        parts = [12 * parameters, 2 * parameters, 2 * parameters]
        room = memory - kept * activations - sum(parts[stage:])
        if room <= 0 and never is not None:
            return never
        return max(1, up((sum(parts[:stage]) + (shared - 1) * activations) / room))

    return devices_needed


WRONG = [
    ('8.1', 'bits for bytes', smallest(byte=1), 'counts bits'),
    ('8.1', 'one pass through the port', smallest(passes=1), 'passes a port twice'),
    ('8.1', 'always one more', smallest(lambda x: int(x) + 1), 'divides evenly'),
    ('8.1', 'rounded down', smallest(math.floor), 'sending takes longer'),
    ('8.2', 'a round trip taken for one message', fit(messages=1), 'are two messages'),
    (
        '8.2',
        'the short time is the latency',
        lambda n1, t1, n2, t2: (t1 / 2, fit()(n1, t1, n2, t2)[1]),
        'the shorter message has bytes, too',
    ),
    (
        '8.2',
        'latency forgotten in the bandwidth',
        lambda n1, t1, n2, t2: (fit()(n1, t1, n2, t2)[0], 2 * n2 / t2),
        'each time includes latency',
    ),
    ('8.3', 'up the tree only', lambda k, a, b: crossing(k, a, b, up=1), 'comes down again'),
    ('8.3', 'ln', lambda k, a, b: crossing(k, a, b, log=math.log), 'not ln(k)'),
    ('8.3', 'whole arrays around the ring', lambda k, a, b: -a * b, '1/k of the array travels'),
    ('8.4', 'the forward pass only', (HOURS / 3, DAYS, DOLLARS), 'the forward pass only'),
    ('8.4', 'always busy', (HOURS * PERCENT / 100, DAYS, DOLLARS), 'full use of the GPUs'),
    ('8.4', 'the time of one GPU', (HOURS, DAYS * GPUS, DOLLARS), 'at the same time'),
    (
        '8.5',
        'every device sends its whole array',
        levels(lambda n, g, s, p, network: ring(s, n * g / p, network)),
        'a device sends only slices',
    ),
    (
        '8.5',
        'one port',
        levels(lambda n, g, s, p, network: ring(s, n, network)),
        'the ports share',
    ),
    ('8.5', 'the reduce-scatter only', levels(right_between, factor=0.5), 'this is half'),
    ('8.6', 'no activations', fits(kept=0), 'stores its own activations'),
    ('8.6', 'rounded down', fits(up=math.floor), 'round up'),
    ('8.6', 'always one more', fits(up=lambda x: int(x) + 1), 'not 3'),
    ('8.6', 'a negative number', fits(never=-1), 'unsharded part does not fit, so'),
]
