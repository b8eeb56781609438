"""History's table and plot, and what a waiting reader sees."""

import io

import pytest
from PIL import Image

from mgpu_helpers import History
from mgpu_helpers.display import Table


@pytest.fixture
def run():
    history = History('devices: 2, <b>', num_examples=60000)
    history.add(seconds=20.04, train_loss=2.3019, test_acc=0.1)
    history.add(seconds=10, train_loss=1.5, test_acc=0.676)
    return history


def test_table_as_text_and_html(run):
    table = Table([['a', '1', '-', '-'], ['b', '20 ms', '3e-4', '-']], ['n', 'x', 'y', 'z'])
    assert repr(table).splitlines()[2:] == ['a        1     -  -', 'b    20 ms  3e-4  -']
    assert table._repr_html_().count('text-align: right') == 2 * 3  # two columns, head and rows
    assert '&lt;i&gt;' in Table([['<i>']], ['a'])._repr_html_()
    assert repr(run).splitlines()[0] == 'devices: 2, <b>'
    assert repr(run).splitlines()[-1].split() == ['2', '10.0', 'sec', '1.500', '0.68', '6,000']
    page = run._repr_html_()
    assert '&lt;b&gt;' in page and '20.0 sec' in page and page.count('<tr>') == 3
    empty = History('none yet', 10)
    assert 'epoch' in repr(empty)
    with pytest.raises(ValueError, match="'none yet' has no epoch"):
        run.plot(empty)


def test_plot_is_a_picture_with_a_line_per_run(run):
    other = History('other', 10)
    other.add(1, 2, 0.5)
    figure = run.plot(other)
    labels = [[line.get_label() for line in axes.lines] for axes in figure.axes]
    assert labels == [['devices: 2, <b>', 'other']] * 2
    picture = io.BytesIO()
    figure.savefig(picture, format='png')
    assert len(Image.open(picture).convert('L').getcolors()) > 10


def test_accuracies_that_are_all_good_fill_their_plot():
    for worst, lowest in ((0.10, 0), (0.79, 0), (0.8, 0.8), (0.918, 0.9), (1, 0.9)):
        one, two = History('one', 10), History('two', 10)
        for accuracy in (0.98, 0.99):
            one.add(1, 2, accuracy)
            two.add(1, 2, worst)
        assert one.plot(two).axes[1].get_ylim() == (pytest.approx(lowest), 1)


LOOP = """
import time
from mgpu_helpers.display import progress
with progress(range(3), 'epoch 1/1') as numbers:
    for _ in numbers: time.sleep(0.3)
print('done')
"""


def test_first_plot_of_a_kernel_is_a_picture_and_a_progress_bar_moves_and_leaves_nothing(kernel):
    # Nothing has drawn before: matplotlib's own backend would come one cell too late.
    reply, shown, printed = kernel(
        "from mgpu_helpers import History; run = History('run', 1); run.add(1.0, 1.0, 0.5)\n"
        'run.plot()'
    )
    assert reply['status'] == 'ok' and not printed['stderr']
    assert [sorted(data) for _, data in shown] == [['image/png', 'text/plain']]
    reply, shown, printed = kernel(LOOP)
    assert reply['status'] == 'ok' and not printed['stderr']
    *bars, last = printed['stdout'].split('\r')
    assert any('epoch 1/1' in bar and '%' in bar for bar in bars)
    assert not bars[-1].strip() and last == 'done\n' and not shown
