"""Timelines: shares of time, tables, pictures and traces, of spans that are made up here."""

import itertools
import json
import math
import pickle

import pytest
from matplotlib.colors import to_hex
from PIL import Image

from mgpu_helpers.timeline.lanes import KINDS, Lanes, Span


@pytest.fixture(scope='module')
def timeline():
    """Ten seconds: cpu(0) works in 0-4 and 6-10, cpu(1) in 3-8, cpu(2) not at all."""
    return Lanes(
        [
            Span('cpu(1)', 'backward', 'dot', 3.0, 8.0),
            Span('cpu(0)', 'forward', 'dot', 0.0, 2.0),
            Span('cpu(0)', 'forward', 'Pooling', 2.0, 4.0),
            Span('cpu(0)', 'allreduce', 'copy to cpu(1)', 6.0, 10.0),
            Span('cpu(0)', 'update', 'sgd', 10.0, 10.0),
        ],
        title='made up <i>',
        lanes=['cpu(2)'],
    )


@pytest.fixture(scope='module')
def figure(timeline):
    """Its picture, with a shorter one below."""
    return timeline.plot(Lanes([Span('cpu(0)', 'forward', 'dot', 100.0, 101.0)], title='short'))


def bars(axes):
    """Colour, start, end, top and bottom of every bar of a panel, without the boxes of idle."""
    found = []
    for collection in axes.collections:
        colours = itertools.cycle(collection.get_facecolor())
        for path, colour in zip(collection.get_paths(), colours, strict=False):
            low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
            if to_hex(colour).upper() in KINDS.values() and low[0] < high[0]:
                found.append((to_hex(colour).upper(), low[0], high[0], low[1], high[1]))
    return found


def test_work_that_overlaps_on_one_lane_counts_once():
    lanes = Lanes(
        [
            Span('a', 'backward', 'x', 0.0, 4.0),
            Span('a', 'allreduce', 'y', 1.0, 2.0),
            Span('a', 'allreduce', 'y', 3.0, 6.0),
            Span('b', 'update', 'z', 9.0, 10.0),
        ]
    )
    assert lanes.table().rows[0][:2] == ['a', '60%']
    assert lanes.overlap == 0


def test_lanes_that_work_together_and_lanes_that_take_turns():
    assert Lanes([Span(lane, 'compute', 'x', 0.0, 1.0) for lane in 'abc']).overlap == 1
    turns = [Span('ab'[i % 2], 'compute', 'x', i / 10, (i + 1) / 10) for i in range(10)]
    assert Lanes(turns).overlap == pytest.approx(0)


def test_shares_of_time_and_their_table(timeline):
    assert timeline.lanes == ['cpu(0)', 'cpu(1)', 'cpu(2)']
    assert timeline.seconds == 10
    assert timeline.overlap == pytest.approx(0.3)  # 3 to 4 and 6 to 8
    table = timeline.table()
    assert table.headers[:3] == ['lane', 'busy', 'idle']
    assert table.headers[3:] == ['forward', 'backward', 'allreduce', 'update']
    assert table.rows[0] == ['cpu(0)', '80%', '20%', '40%', '0%', '40%', '0%']
    assert table.rows[2][:3] == ['cpu(2)', '0%', '100%']
    # Idle: cpu(0) and cpu(2) in 4-6, cpu(1) and cpu(2) in 0-3 and 8-10.
    assert table.rows[3][:3] == ['at least two at once', '30%', '70%']


def test_a_single_lane_has_no_row_for_two_and_little_does_not_look_like_nothing():
    spans = [Span('a', 'compute', 'x', 0.0, 0.996), Span('a', 'update', 'y', 0.996, 1.0)]
    assert Lanes(spans).table().rows == [['a', '100%', '0%', '100%', '0.4%']]


def test_most_expensive_operators_first(timeline):
    table = timeline.operators(3)
    assert [row[:3] for row in table.rows] == [
        ['dot', 'backward', 1],
        ['copy to cpu(1)', 'allreduce', 1],
        ['dot', 'forward', 1],
    ]
    assert table.rows[0][3:] == ['5000.00', '38%']
    assert len(timeline.operators().rows) == 5
    for n in (0, 1.5, True):
        with pytest.raises((TypeError, ValueError), match='n must be'):
            timeline.operators(n)


def test_spans_can_come_later_and_lanes_sort_by_number():
    lanes = Lanes(title='grows')
    lanes.add([Span('gpu(10)', 'compute', 'x', 2.0, 3.0)])
    lanes.add([Span('gpu(2)', 'compute', 'x', 0.0, 1.0)], lanes=['gpu(0)'])
    assert [s.lane for s in lanes.spans] == ['gpu(2)', 'gpu(10)']
    assert lanes.lanes == ['gpu(0)', 'gpu(2)', 'gpu(10)']
    assert lanes.seconds == 3


def test_shows_itself_as_text_and_html_also_after_pickling(timeline):
    copy = pickle.loads(pickle.dumps(timeline))
    assert (copy.spans, copy.lanes) == (timeline.spans, timeline.lanes)
    assert repr(copy).splitlines()[0] == 'made up <i>'
    assert 'at least two at once' in repr(copy)
    assert 'made up &lt;i&gt;' in copy._repr_html_()


@pytest.mark.parametrize('spans', [[], [Span('a', 'compute', 'x', 1.0, 1.0)]])
def test_nothing_recorded_is_said(spans, tmp_path):
    timeline = Lanes(spans, title='empty')
    for use in (
        lambda: timeline.seconds,
        lambda: timeline.overlap,
        timeline.table,
        timeline.operators,
        timeline.plot,
        lambda: timeline.save_trace(tmp_path / 'trace.json'),
        lambda: timeline.save_picture(tmp_path / 'picture.png'),
    ):
        with pytest.raises(ValueError, match="nothing was recorded in 'empty'.*put the training"):
            use()
    assert not list(tmp_path.iterdir())
    assert repr(Lanes(title='<b>')) == "<Lanes '<b>': nothing was recorded>"
    assert '<b>' not in Lanes(title='<b>')._repr_html_()


def test_a_span_is_checked():
    for span, error, words in (
        (('a', 'sleep', 'x', 0.0, 1.0), ValueError, "compute, .*update, not 'sleep'"),
        (('a', 'compute', 'x', 1.0, 0.5), ValueError, 'ends at 0.5 s, before it starts at 1.0 s'),
        (('a', 'compute', 'x', 0.0, math.inf), ValueError, 'end must be a finite number'),
        (('a', 'compute', 'x', '0', 1.0), TypeError, "start must be a number, not '0'"),
        ((0, 'compute', 'x', 0.0, 1.0), TypeError, 'lane must be a text, not 0'),
        (('a', 'compute', None, 0.0, 1.0), TypeError, 'name must be a text, not None'),
    ):
        with pytest.raises(error, match=words):
            Span(*span)


def test_only_spans_make_lanes_and_only_lanes_are_compared(timeline):
    with pytest.raises(TypeError, match='made of Spans, not of'):
        Lanes([('a', 'compute', 'x', 0.0, 1.0)])
    with pytest.raises(TypeError, match="compares with other Lanes, not with 'other'"):
        timeline.plot('other')
    with pytest.raises(ValueError, match="nothing was recorded in 'empty'"):
        timeline.plot(Lanes(title='empty'))


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
    spans = [
        Span('gpu(0)', 'allreduce', 'ring', 0.5, 1.5),
        Span('gpu(0)', 'backward', 'layer 2', 0.0, 1.0),
        Span('gpu(0)', 'backward', 'layer 1', 1.0, 2.0),
        Span('gpu(1)', 'backward', 'layer 2', 0.0, 1.0),
    ]
    (axes,) = Lanes(spans).plot().axes
    found = {(colour, round(a)): (low, high) for colour, a, _, low, high in bars(axes) if low < 0.5}
    ring = found[KINDS['allreduce'].upper(), 500]
    layers = [found[KINDS['backward'].upper(), start] for start in (0, 1000)]
    assert layers[0] == layers[1]
    assert ring[0] >= layers[0][1]  # the axis points down


def test_panels_share_one_time_axis(figure):
    first, second = figure.axes
    assert first.get_xlim() == second.get_xlim()
    assert second.get_xlabel() == 'time, ms'
    assert [axes.get_title('left') for axes in figure.axes] == ['made up <i>', 'short']
    assert first.get_title('right') == '10 s, two or more at work: 30%'
    assert second.get_title('right') == '1 s'  # of one lane
    assert min(a for _, a, *_ in bars(second)) == 0  # each begins with its own first span


def test_legend_names_the_kinds_that_occur(figure):
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words == ['forward', 'backward', 'allreduce', 'update', 'idle']
    figure.canvas.draw()
    below = figure.axes[0].get_window_extent().y1
    assert legend.get_window_extent().y0 > below  # it covers no bar
    assert len(set(KINDS.values())) == len(KINDS)


def test_picture_in_a_file(timeline, tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    timeline.save_picture(tmp_path / 'picture.png')
    assert plt.get_fignums() == before  # it is left in no list of open figures
    picture = Image.open(tmp_path / 'picture.png').convert('RGB')
    colours = {'#{:02X}{:02X}{:02X}'.format(*colour) for _, colour in picture.getcolors(10**6)}
    for kind in timeline.kinds():
        assert KINDS[kind].upper() in colours, kind
    assert picture.width == 1200


def test_picture_of_few_and_many_lanes():
    for lanes in (1, 8):
        spans = [Span(f'gpu({i})', 'compute', 'x', 0.0, 1.0 + i) for i in range(lanes)]
        width, height = Lanes(spans).plot().get_size_inches()
        assert width == 8
        assert 0.5 * lanes < height < 1.1 * lanes + 1.5


def read_trace(timeline, folder):
    timeline.save_trace(folder / 'trace.json')
    return json.loads((folder / 'trace.json').read_text())


def test_trace_has_a_named_process_per_lane_and_an_event_per_span(timeline, tmp_path):
    """The structure that the Trace Event Format asks for, in its JSON object form."""
    trace = read_trace(timeline, tmp_path)
    events = trace['traceEvents']
    assert trace['displayTimeUnit'] == 'ms'
    names = {
        e['pid']: e['args']['name'] for e in events if (e['ph'], e['name']) == ('M', 'process_name')
    }
    assert sorted(names.values()) == timeline.lanes
    spans = [e for e in events if e['ph'] == 'X']
    assert {e['ph'] for e in events} == {'M', 'X'}
    for e in spans:
        assert {'name', 'cat', 'ph', 'ts', 'dur', 'pid', 'tid', 'args'} == set(e)
        assert all(isinstance(e[key], int) for key in ('pid', 'tid'))
        assert e['ts'] >= 0
        assert e['dur'] >= 0
    found = sorted((names[e['pid']], e['cat'], e['name'], e['ts'], e['dur']) for e in spans)
    assert found == sorted(
        (s.lane, s.kind, s.name, 1e6 * s.start, 1e6 * s.seconds) for s in timeline.spans
    )
    threads = {(e['pid'], e['tid']) for e in events if e['name'] == 'thread_name'}
    assert {(e['pid'], e['tid']) for e in spans} <= threads


def test_events_of_one_thread_do_not_overlap_and_start_at_zero(tmp_path):
    now = 1.7e9  # as a clock gives it
    spans = [
        Span('gpu(0)', 'allreduce', 'ring', now + 0.5, now + 1.5),
        Span('gpu(0)', 'allreduce', 'ring', now + 1.2, now + 2.5),
        Span('gpu(0)', 'backward', 'layer 2', now, now + 1.0),
        Span('gpu(0)', 'backward', 'layer 1', now + 1.0, now + 2.0),
    ]
    events = [e for e in read_trace(Lanes(spans), tmp_path)['traceEvents'] if e['ph'] == 'X']
    by_thread = {}
    for e in sorted(events, key=lambda e: e['ts']):
        assert by_thread.get(e['tid'], 0) <= e['ts'] + 1
        by_thread[e['tid']] = e['ts'] + e['dur']
    assert len(by_thread) == 3
    assert min(e['ts'] for e in events) == 0
    assert max(by_thread.values()) == pytest.approx(2.5e6, abs=1)
