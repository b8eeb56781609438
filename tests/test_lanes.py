"""Timelines: shares of time, tables and pictures, of spans that are made up here."""

import itertools
import pickle

import pytest
from matplotlib.colors import to_hex

from mgpu_helpers.lanes import KINDS, Lanes, Span


@pytest.fixture(scope='module')
def timeline():
    """Ten seconds: cpu(0) works in 0-4 and 6-10, cpu(1) in 3-8."""
    spans = [
        Span('cpu(1)', 'backward', 'dot', 3.0, 8.0),
        Span('cpu(0)', 'forward', 'dot', 0.0, 2.0),
        Span('cpu(0)', 'forward', 'Pooling', 2.0, 4.0),
        Span('cpu(0)', 'allreduce', 'copy to cpu(1)', 6.0, 10.0),
        Span('cpu(0)', 'update', 'sgd', 10.0, 10.0),
    ]
    return Lanes(spans, title='made up <i>')


@pytest.fixture(scope='module')
def figure(timeline):
    """Its figure, above that of a shorter one."""
    return timeline.plot(Lanes([Span('cpu(0)', 'forward', 'dot', 100.0, 101.0)], title='short'))


def bars(axes):
    """Colour, start, end, top and bottom of every bar of a panel, without the boxes of idle."""
    rectangles = []
    for collection in axes.collections:
        colours = itertools.cycle(collection.get_facecolor())
        for path, colour in zip(collection.get_paths(), colours, strict=False):
            low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
            if to_hex(colour).upper() in KINDS.values() and low[0] < high[0]:
                rectangles.append((to_hex(colour).upper(), low[0], high[0], low[1], high[1]))
    return rectangles


def test_shares_of_time_when_work_overlaps_takes_turns_or_is_little():
    on_one = [('backward', 0.0, 4.0), ('allreduce', 1.0, 2.0), ('allreduce', 3.0, 6.0)]
    spans = [Span('a', kind, 'x', start, end) for kind, start, end in on_one]
    lanes = Lanes([*spans, Span('b', 'update', 'z', 9.0, 10.0)])
    assert lanes.table().rows[0][:2] == ['a', '60%'] and lanes.overlap == 0
    assert Lanes([Span(lane, 'compute', 'x', 0.0, 1.0) for lane in 'abc']).overlap == 1
    # Neither Python nor a port is a device: beside one device nothing works at the same time.
    beside = [Span(lane, 'compute', 'x', 0.0, 1.0) for lane in ('a', 'Python', 'a sends')]
    assert Lanes(beside).overlap == 0
    turns = [Span('ab'[i % 2], 'compute', 'x', i / 10, (i + 1) / 10) for i in range(10)]
    assert Lanes(turns).overlap == pytest.approx(0)
    # A single lane has no row for two, and little does not look like nothing.
    spans = [Span('a', 'compute', 'x', 0.0, 0.996), Span('a', 'update', 'y', 0.996, 1.0)]
    assert Lanes(spans).table().rows == [['a', '100%', '0%', '100%', '0.4%']]


def test_table_of_shares_also_after_pickling(timeline):
    assert timeline.lanes == ['cpu(0)', 'cpu(1)'] and timeline.seconds == 10
    assert timeline.overlap == pytest.approx(0.3)  # 3 to 4 and 6 to 8
    table = timeline.table()
    assert table.headers == ['lane', 'busy', 'idle', 'forward', 'backward', 'allreduce', 'update']
    assert table.rows[0] == ['cpu(0)', '80%', '20%', '40%', '0%', '40%', '0%']
    assert table.rows[1][:3] == ['cpu(1)', '50%', '50%']
    # One is always at work: cpu(0) is idle in 4-6, cpu(1) in 0-3 and 8-10.
    assert table.rows[2][:3] == ['at least two at once', '30%', '0%']
    copy = pickle.loads(pickle.dumps(timeline))
    assert (copy.spans, copy.lanes) == (timeline.spans, timeline.lanes)
    assert repr(copy) == "<Lanes 'made up <i>': 5 spans on cpu(0), cpu(1)>"
    # Spans can come later, and lanes sort by number.
    lanes = Lanes([Span('gpu(10)', 'compute', 'x', 2.0, 3.0)])
    lanes.add([Span('gpu(2)', 'compute', 'x', 0.0, 1.0)])
    assert [s.lane for s in lanes.spans] == ['gpu(2)', 'gpu(10)'] and lanes.seconds == 3
    assert lanes.lanes == ['gpu(2)', 'gpu(10)']


@pytest.mark.parametrize('spans', [[], [Span('a', 'compute', 'x', 1.0, 1.0)]])
def test_nothing_recorded_is_said(spans, timeline):
    empty = Lanes(spans, title='empty')
    for use in (lambda: empty.overlap, empty.table, empty.plot, lambda: timeline.plot(empty)):
        with pytest.raises(ValueError, match="'empty' has no recorded work: put the training"):
            use()


def test_picture_has_a_row_per_lane_and_a_bar_per_span(timeline, figure):
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == timeline.lanes
    bottom, top = axes.get_ylim()
    assert bottom > top  # the first lane is on top
    drawn = sorted((colour, round(a), round(b)) for colour, a, b, *_ in bars(axes) if b - a > 100)
    assert drawn == sorted(
        (KINDS[s.kind].upper(), 1000 * s.start, 1000 * s.end) for s in timeline.spans if s.seconds
    )
    names = {text.get_text() for text in axes.texts}
    assert {'dot', 'Pooling', 'copy to cpu(1)'} <= names
    # What is too short to see is drawn all the same.
    (update,) = [bar for bar in bars(axes) if bar[0] == KINDS['update'].upper()]
    assert update[2] > update[1]
    assert 'sgd' not in names


def test_work_beside_other_work_is_drawn_below_it():
    times = [
        ('allreduce', 0.5, 1.5),
        ('allreduce', 1.2, 2.5),
        ('backward', 0, 1),
        ('backward', 1, 2),
    ]
    (axes,) = Lanes(Span('gpu(0)', kind, 'x', *when) for kind, *when in times).plot().axes
    spans = {(colour, round(a)): (low, high) for colour, a, _, low, high in bars(axes) if low < 0.5}
    ring = spans[KINDS['allreduce'].upper(), 500]
    layers = [spans[KINDS['backward'].upper(), start] for start in (0, 1000)]
    assert layers[0] == layers[1]
    assert ring[0] >= layers[0][1]  # the axis points down


def test_panels_share_one_time_axis_and_the_legend_names_the_kinds_that_occur(figure):
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim() and second.get_xlabel() == 'time, ms'
    assert [axes.get_title('left') for axes in figure.axes] == ['made up <i>', 'short']
    assert first.get_title('right') == '10 s, two or more at work: 30%'
    assert second.get_title('right') == '1 s'  # of one lane
    assert min(a for _, a, *_ in bars(second)) == 0  # each begins with its own first span
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ['forward', 'backward', 'allreduce', 'update', 'idle']
    figure.canvas.draw()  # it covers no bar
    assert legend.get_window_extent().y0 > first.get_window_extent().y1
    for together in (
        ('compute', 'forward', 'backward', 'copy', 'allreduce', 'update', 'python'),
        ('forward', 'input gradient', 'weight gradient', 'all-gather', 'reduce-scatter'),
    ):
        assert len({KINDS[kind] for kind in together}) == len(together)
    for lanes in (1, 8):
        spans = [Span(f'gpu({i})', 'compute', 'x', 0.0, 1.0 + i) for i in range(lanes)]
        width, height = Lanes(spans).plot().get_size_inches()
        assert width == 8 and 0.5 * lanes < height < 1.1 * lanes + 1.5
