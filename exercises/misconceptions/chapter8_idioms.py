"""Right answers to the exercises of chapter 8, written differently from ours; each must pass."""

import math

import numpy as np

from mgpu_helpers.scaling import Link, ring


def counted_up(parameters, flops, value_bytes, operations, gigabits):
    bits = 2 * 8 * parameters * value_bytes
    sending = bits / (gigabits * 10**9)
    examples = 1
    while examples * 2 * flops / operations < sending:
        examples += 1
    return examples


def floor_and_one(parameters, flops, value_bytes, operations, gigabits):
    port = 125e6 * gigabits
    ratio = (parameters * value_bytes / port) / (flops / operations)
    return int(ratio) + (ratio > int(ratio))


def solved(n1, t1, n2, t2):
    latency, per_byte = np.linalg.solve([[2, 2 * n1], [2, 2 * n2]], [t1, t2])
    return [latency, 1 / per_byte]


def polyfit(n1, t1, n2, t2):
    slope, intercept = np.polyfit([n1, n2], [t1 / 2, t2 / 2], 1)
    return np.array([intercept, 1 / slope])


def by_two_lines(k, alpha, bandwidth):
    up_and_down, around = 2 * math.log2(k), 2 * (k - 1)
    flat = alpha * (around - up_and_down)
    steep = up_and_down / bandwidth - around / (k * bandwidth)
    return flat / steep


def by_bisection(k, alpha, bandwidth):
    link = Link('mine', alpha, bandwidth)
    low, high = 0.0, 1e12
    for _ in range(200):
        middle = (low + high) / 2
        if ring(k, middle, link) > 2 * (k.bit_length() - 1) * link.seconds(middle):
            low = middle
        else:
            high = middle
    return high


def by_rings(nbytes, gpus, servers, ports, inside, network):
    return ring(gpus, nbytes, inside) + ring(servers, nbytes / ports, network)


def phase_by_phase(nbytes, gpus, servers, ports, inside, network):
    scatter = sum(inside.seconds(nbytes / gpus) for _ in range(gpus - 1))
    of_port = nbytes / ports
    between = sum(network.seconds(of_port / servers) for _ in range(2 * (servers - 1)))
    gather = scatter
    return scatter + between + gather


def tried(parameters, stage, memory, activations):
    whole = [12, 2, 2][stage:]
    shared = [12, 2, 2][:stage]
    if parameters * sum(whole) + activations >= memory:
        fits_on_one = parameters * 16 + activations <= memory
        return int(fits_on_one)
    devices = 1
    while parameters * (sum(whole) + sum(shared) / devices) + activations > memory:
        devices += 1
    return devices


def negated_floor(parameters, stage, memory, activations):
    adam, grads, weights = (k * parameters for k in (12, 2, 2))
    divided = [0, adam, adam + grads, adam + grads + weights][stage]
    kept = adam + grads + weights - divided + activations
    room = memory - kept
    if room <= 0:
        return 0
    return -int(-divided // room) or 1


RIGHT = [
    ('8.1', 'counted up', counted_up),
    ('8.1', 'one more where it does not come out even', floor_and_one),
    ('8.2', 'two equations, in a list', solved),
    ('8.2', 'a line through two points', polyfit),
    ('8.3', 'flat and steep', by_two_lines),
    ('8.3', 'bisection', by_bisection),
    ('8.5', 'by rings', by_rings),
    ('8.5', 'phase by phase', phase_by_phase),
    ('8.6', 'tried one by one', tried),
    ('8.6', 'a negated floor', negated_floor),
]
