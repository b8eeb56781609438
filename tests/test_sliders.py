"""The picture behind the sliders, the sliders, and what shows where they do not run."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from mgpu_helpers.scaling import LINKS, MODELS, Layer, Link, Machine, Model, step
from mgpu_helpers.scaling.sliders import FLOPS, START, WORK, explore, picture

WIDGET = 'application/vnd.jupyter.widget-view+json'


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert('RGB'), dtype=int)


def chosen_points(figure):
    """Where the large dot lies in the two curves."""
    return [axes.lines[3].get_xydata()[0].tolist() for axes in figure.axes[:2]]


def test_dot_lies_at_the_closed_form():
    figure = picture(devices=512, bandwidth=1e9, latency=14e-6, batch=16, parameters=10**7)
    machine = Machine('m', FLOPS, Link('l', 14e-6, 1e9))
    model = Model('m', [Layer('all', 10**7, WORK * 10**7)])
    one, many = (step(model, 16, k, machine).seconds for k in (1, 512))
    (devices, speedup), (_, efficiency) = chosen_points(figure)
    assert devices == 512
    assert (speedup, efficiency) == pytest.approx((512 * one / many, one / many))


def test_strong_scaling_shares_the_batch_of_the_chosen_devices():
    figure = picture(devices=64, batch=32)
    for (devices, value), axes in zip(chosen_points(figure), figure.axes):
        weak, strong = (dict(axes.lines[i].get_xydata()) for i in (1, 2))
        assert strong[devices] == pytest.approx(value) == weak[devices]
        assert strong[2048] < weak[2048] and 4096 in weak and 4096 not in strong


def test_bars_are_the_parts_of_the_step():
    figure = picture()
    bars = [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in figure.axes[2].patches]
    compute = sum(width for y, width in bars if y == 1)
    allreduce = sum(width for y, width in bars if y == 0)
    model, link = MODELS['ResNet-50'], LINKS['25 Gb RoCE']
    same = step(model, START['batch'], START['devices'], Machine('m', FLOPS, link))
    assert compute == pytest.approx(same.forward + same.backward, rel=0.01)
    assert allreduce == pytest.approx(same.communication, rel=0.01)
    assert bars[-1][1] == pytest.approx(same.exposed, rel=0.05)
    assert figure.axes[2].get_xlim()[1] == pytest.approx(same.seconds, rel=0.01)


def test_extremes_can_be_drawn_and_bad_values_are_refused():
    for extreme in (
        {'devices': 1},
        {'devices': 4096, 'bandwidth': 1e8, 'latency': 1e-3, 'batch': 1},
        {'parameters': 1, 'batch': 1},
        {'parameters': 10**10, 'bandwidth': 1e12, 'overlap': False, 'algorithm': 'naive'},
    ):
        picture(**extreme).savefig(io.BytesIO())
    for bad, kind, message in (
        ({'devices': 0}, ValueError, 'devices must be at least 1, not 0'),
        ({'devices': 5000}, ValueError, 'devices must be at most 4096, not 5000'),
        ({'bandwidth': 0}, ValueError, 'bandwidth in bytes per second must be .* above 0, not 0'),
        ({'latency': -1e-6}, ValueError, 'latency in seconds must be a number above 0'),
        ({'batch': 0}, ValueError, 'batch must be at least 1, not 0'),
        ({'parameters': 0}, ValueError, 'parameters must be at least 1, not 0'),
        ({'algorithm': 'gossip'}, ValueError, "algorithm must be one of .*, not 'gossip'"),
        ({'flops': 0}, ValueError, 'flops per second must be a number above 0, not 0'),
    ):
        for function in (picture, explore):
            with pytest.raises(kind, match=message):
                function(**bad)


def test_sliders_begin_at_the_start_values_and_draw_what_they_are_moved_to():
    start = {'devices': 48, 'bandwidth': 2e9, 'latency': 5e-6, 'batch': 24, 'parameters': 10**6}
    explorer = explore(**start)
    first = explorer.image.value
    values = {name: slider.value for name, slider in explorer.sliders.items()}
    shown = {'devices': 48, 'bandwidth': 2.0, 'latency': 5.0, 'batch': 24, 'parameters': 1.0}
    assert values == pytest.approx(shown)
    for name, value, choice in (
        ('devices', 512, 512),
        ('bandwidth', 100.0, 100e9),
        ('latency', 300.0, 300e-6),
        ('batch', 1, 1),
        ('parameters', 138.0, 138_000_000),
    ):
        before = explorer.image.value
        explorer.sliders[name].value = value
        assert (pixels(explorer.image.value) != pixels(before)).any()
        start[name] = choice
    file = io.BytesIO()
    figure = picture(**start)
    assert chosen_points(figure)[0][0] == 512
    figure.savefig(file, format='png', dpi=100)
    assert (pixels(explorer.image.value) == pixels(file.getvalue())).all()
    # What a notebook stores: where no kernel runs, the first picture shows.
    stored = explorer._repr_mimebundle_()
    assert sorted(stored) == [WIDGET, 'image/png', 'text/plain']
    assert base64.b64decode(stored['image/png']) == first
    assert 'picture(devices=512, ' in stored['text/plain']
