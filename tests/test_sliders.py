"""The picture behind the sliders, the sliders, and what shows where they do not run."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from mgpu_helpers.display import png
from mgpu_helpers.scaling import Layer, Link, Machine, Model, step
from mgpu_helpers.scaling.sliders import FLOPS, WORK, explore, picture

WIDGET = 'application/vnd.jupyter.widget-view+json'


def pixels(image):
    return np.asarray(Image.open(io.BytesIO(image)).convert('RGB'), dtype=int)


def chosen_points(figure):
    """The position of the large dot on the two curves."""
    return [axes.lines[3].get_xydata()[0].tolist() for axes in figure.axes[:2]]


def test_dot_and_bars_are_those_of_the_closed_form():
    figure = picture(devices=512, bandwidth=2e9, latency=14e-6, batch=16, parameters=10**7)
    machine = Machine('m', FLOPS, Link('l', 14e-6, 2e9))
    model = Model('m', [Layer('all', 10**7, WORK * 10**7)])
    one, many = (step(model, 16, k, machine) for k in (1, 512))
    (devices, speedup), (_, efficiency) = chosen_points(figure)
    share = one.seconds / many.seconds
    assert (devices, speedup, efficiency) == pytest.approx((512, 512 * share, share))
    assert '1,024' in [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    bars = [bar.get_width() for bar in figure.axes[2].patches]
    hidden = many.communication - many.exposed
    assert bars == pytest.approx([many.forward, many.backward, hidden, many.exposed])
    assert figure.axes[2].get_xlim()[1] == pytest.approx(many.seconds) and min(bars) > 0


def test_strong_scaling_shares_the_batch_of_the_chosen_devices():
    figure = picture(devices=64, batch=32)
    for (devices, value), axes in zip(chosen_points(figure), figure.axes):
        weak, strong = (dict(axes.lines[i].get_xydata()) for i in (1, 2))
        assert strong[devices] == pytest.approx(value) == weak[devices]
        assert strong[2048] < weak[2048] and 4096 in weak and 4096 not in strong


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
