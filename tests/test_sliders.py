"""The picture behind the sliders, the sliders, and what shows where they do not run."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from mgpu_helpers.display import png
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
    assert '1,024' in [tick.get_text() for tick in figure.axes[0].get_xticklabels()]


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
        {'parameters': 10**10, 'bandwidth': 1e12},
    ):
        png(picture(**extreme))
    for bad, kind, message in (
        ({'devices': 5000}, ValueError, 'devices must be at most 4096, not 5000'),
        ({'latency': -1e-6}, ValueError, 'latency in seconds must be a number above 0'),
        ({'batch': 0}, ValueError, 'batch must be at least 1, not 0'),
        ({'parameters': 0}, ValueError, 'parameters must be at least 1, not 0'),
    ):
        with pytest.raises(kind, match=message):
            explore(**bad)


def test_sliders_begin_at_the_start_values_and_draw_what_they_are_moved_to():
    start = {'devices': 48, 'bandwidth': 2e9, 'latency': 5e-6, 'batch': 24, 'parameters': 10**6}
    explorer = explore(**start)
    first = explorer.image.value
    assert {name: slider.value for name, slider in explorer.sliders.items()} == start
    labels = [slider.label for slider in explorer.sliders.values()]
    assert labels == ['48', '2 GB/s', '5 µs', '24', '1 M']
    for name, label in zip(start, ('512', '100 GB/s', '316 µs', '1', '126 M'), strict=True):
        before = explorer.image.value
        explorer.sliders[name].label = label
        assert (pixels(explorer.image.value) != pixels(before)).any()
    moved = {name: slider.value for name, slider in explorer.sliders.items()}
    assert moved['bandwidth'] == 1e11 and moved['latency'] == pytest.approx(316e-6, rel=1e-3)
    figure = picture(**moved)
    assert chosen_points(figure)[0][0] == 512
    assert (pixels(explorer.image.value) == pixels(png(figure))).all()
    # What a notebook stores: where no kernel runs, the first picture shows.
    stored = explorer._repr_mimebundle_()
    assert sorted(stored) == [WIDGET, 'image/png', 'text/plain']
    assert base64.b64decode(stored['image/png']) == first
    assert 'picture(devices=512, ' in stored['text/plain']
