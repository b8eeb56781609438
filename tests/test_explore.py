"""The picture behind the sliders, the sliders, and what shows where they do not run."""

import base64
import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from mgpu_helpers.scaling import LINKS, MODELS, Layer, Link, Machine, Model, step
from mgpu_helpers.scaling.explore import FLOPS, START, WORK, explore, picture

WIDGET = 'application/vnd.jupyter.widget-view+json'


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert('RGB'), dtype=int)


def chosen_points(figure):
    """Where the large dot lies in the two curves."""
    return [axes.lines[1].get_xydata()[0].tolist() for axes in figure.axes[:2]]


def test_dot_lies_at_the_closed_form():
    figure = picture(devices=512, bandwidth=1e9, latency=14e-6, batch=16, parameters=10**7)
    machine = Machine('m', FLOPS, Link('l', 14e-6, 1e9))
    model = Model('m', [Layer('all', 10**7, WORK * 10**7)])
    one, many = (step(model, 16, k, machine).seconds for k in (1, 512))
    (devices, speedup), (_, efficiency) = chosen_points(figure)
    assert devices == 512
    assert speedup == pytest.approx(512 * one / many)
    assert efficiency == pytest.approx(one / many)


def test_bars_are_the_parts_of_the_step():
    figure = picture()
    bars = [(bar.get_y() + bar.get_height() / 2, bar.get_width()) for bar in figure.axes[2].patches]
    compute = sum(width for y, width in bars if y == 1)
    allreduce = sum(width for y, width in bars if y == 0)
    model, link = MODELS['ResNet-50'], LINKS['25 Gb RoCE']
    same = step(model, START['batch'], START['devices'], Machine('m', FLOPS, link))
    assert compute == pytest.approx(1e3 * (same.forward + same.backward), rel=0.01)
    assert allreduce == pytest.approx(1e3 * same.communication, rel=0.01)
    assert bars[-1][1] == pytest.approx(1e3 * same.exposed, rel=0.05)
    assert figure.axes[2].get_xlim()[1] == pytest.approx(1e3 * same.seconds, rel=0.01)


def test_a_number_of_devices_that_is_no_power_of_two():
    assert chosen_points(picture(devices=48))[0][0] == 48


@pytest.mark.parametrize(
    'extreme',
    [
        {'devices': 1},
        {'devices': 4096, 'bandwidth': 1e8, 'latency': 1e-3, 'batch': 1},
        {'parameters': 1, 'batch': 1},
        {'parameters': 10**10, 'bandwidth': 1e12, 'overlap': False, 'algorithm': 'naive'},
    ],
)
def test_extremes_can_be_drawn(extreme):
    file = io.BytesIO()
    picture(**extreme).savefig(file, format='png')
    assert len(np.unique(pixels(file.getvalue()))) > 10


@pytest.mark.parametrize('function', [picture, explore])
@pytest.mark.parametrize(
    'bad, kind, message',
    [
        ({'devices': 0}, ValueError, 'devices must be at least 1, not 0'),
        ({'devices': 5000}, ValueError, 'devices must be at most 4096, not 5000'),
        ({'bandwidth': 0}, ValueError, 'bandwidth in bytes per second must be .* above 0, not 0'),
        ({'latency': -1e-6}, ValueError, 'latency in seconds must be a number above 0'),
        ({'batch': 0.5}, TypeError, 'batch must be an integer'),
        ({'parameters': 0}, ValueError, 'parameters must be at least 1, not 0'),
        ({'algorithm': 'gossip'}, ValueError, "algorithm must be one of .*, not 'gossip'"),
        ({'flops': 0}, ValueError, 'flops per second must be a number above 0, not 0'),
    ],
)
def test_bad_values_are_refused(function, bad, kind, message):
    with pytest.raises(kind, match=message):
        function(**bad)


def test_sliders_begin_at_the_start_values():
    explorer = explore(devices=48, bandwidth=2e9, latency=5e-6, batch=24, parameters=10**6)
    values = {name: slider.value for name, slider in explorer.sliders.items()}
    assert values == {
        'devices': 48,
        'bandwidth': pytest.approx(2.0),
        'latency': pytest.approx(5.0),
        'batch': 24,
        'parameters': pytest.approx(1.0),
    }


@pytest.mark.parametrize(
    'name, value, choice',
    [
        ('devices', 512, {'devices': 512}),
        ('bandwidth', 100.0, {'bandwidth': 100e9}),
        ('latency', 300.0, {'latency': 300e-6}),
        ('batch', 1, {'batch': 1}),
        ('parameters', 138.0, {'parameters': 138_000_000}),
    ],
)
def test_moving_a_slider_draws_its_picture(name, value, choice):
    explorer = explore()
    before = pixels(explorer.image.value)
    explorer.sliders[name].value = value
    after = pixels(explorer.image.value)
    assert (before != after).any()
    file = io.BytesIO()
    picture(**choice).savefig(file, format='png', dpi=100)
    assert (after == pixels(file.getvalue())).all()


def test_where_widgets_do_not_run_the_first_picture_shows():
    explorer = explore(devices=8)
    explorer.sliders['devices'].value = 1024
    shown = explorer._repr_mimebundle_()
    assert sorted(shown) == [WIDGET, 'image/png', 'text/plain']
    file = io.BytesIO()
    picture(devices=8).savefig(file, format='png', dpi=100)
    assert (pixels(base64.b64decode(shown['image/png'])) == pixels(file.getvalue())).all()


def test_in_a_real_notebook():
    """Shown with its picture, redrawn when a slider moves, nothing on stderr."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        nbformat.v4.new_code_cell(source)
        for source in (
            'from mgpu_helpers.scaling.explore import explore, picture\n'
            'explorer = explore(devices=8)\nexplorer',
            'before = explorer.image.value\n'
            "explorer.sliders['devices'].value = 512\n"
            'explorer.image.value != before',
            'picture(devices=8)',
        )
    ]
    NotebookClient(notebook, timeout=120, kernel_name='python3').execute()
    shown, moved, static = (cell.outputs for cell in notebook.cells)
    assert [sorted(output['data']) for output in shown] == [[WIDGET, 'image/png', 'text/plain']]
    assert 'devices=8' in shown[0]['data']['text/plain']
    assert moved[0]['data']['text/plain'] == 'True'
    assert [sorted(output['data']) for output in static] == [['image/png', 'text/plain']]
    state = notebook.metadata['widgets']['application/vnd.jupyter.widget-state+json']['state']
    assert shown[0]['data'][WIDGET]['model_id'] in state
    buffers = [b['data'] for model in state.values() for b in model.get('buffers', [])]
    redrawn = pixels(base64.b64decode(buffers[-1]))
    assert (redrawn != pixels(base64.b64decode(shown[0]['data']['image/png']))).any()


def test_without_ipywidgets_the_picture_remains():
    done = subprocess.run(
        [
            sys.executable,
            '-c',
            "import sys; sys.modules['ipywidgets'] = None\n"
            'from mgpu_helpers.scaling.explore import explore, picture\n'
            'print(len(picture().axes))\n'
            'explore()',
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == '3\n'
    assert "explore() needs ipywidgets: pip install 'mgpu-helpers[notebooks]'" in done.stderr


def test_importing_it_loads_neither_mxnet_nor_widgets():
    done = subprocess.run(
        [
            sys.executable,
            '-c',
            'import sys\n'
            'from mgpu_helpers.scaling import explore, fitting, messages, simulator\n'
            "print([name for name in ('mxnet', 'ipywidgets', 'torch') if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
    )
    assert done.stdout == '[]\n', done.stderr
