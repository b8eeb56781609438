"""Ranks in a notebook: real engines, under real kernels; whatever ends, nothing is left."""

import os
import signal
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import psutil
import pytest

import mgpu_helpers as mgpu
from mgpu_helpers.processes import engines

pytest.importorskip('torch', reason='PyTorch is not installed here: make setup TORCH=1')
START = """
    import os, time
    import mgpu_helpers as mgpu
    ranks = mgpu.ranks(2, group=True, seconds=3)
    print(os.getpid())
"""


class Notebook:
    """A kernel, and all that it has started."""

    def __init__(self):
        from jupyter_client.manager import start_new_kernel

        self.manager, self.client = start_new_kernel(kernel_name='python3')
        self.pid = int(self('import os; print(os.getpid())'))

    def __call__(self, cell, ok=True):
        """Run a cell; give what it printed, or its error's text."""
        printed = []

        def note(message):
            if message['msg_type'] == 'stream':
                printed.append(message['content']['text'])

        call = textwrap.dedent(cell)
        reply = self.client.execute_interactive(call, output_hook=note, timeout=120)['content']
        assert (reply['status'] == 'ok') == ok, reply
        return ''.join(printed) if ok else f'{reply["ename"]}: {reply["evalue"]}'

    def started(self):
        return psutil.Process(self.pid).children(recursive=True)


@pytest.fixture
def notebook():
    notebook = Notebook()
    notebook(START)
    yield notebook
    notebook.client.stop_channels()
    notebook.manager.shutdown_kernel(now=True)


def gone(processes, seconds=15):
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    assert not alive, [process.cmdline()[-3:] for process in alive]


SUM = """
    %%px
    x = torch.ones(2) * (rank + 1)
    dist.all_reduce(x)
    print('rank', rank, 'of', world_size, x)
"""


def test_a_cell_runs_on_all_ranks_and_prints_alike(notebook):
    first = notebook(SUM)
    lines = first.splitlines()
    assert lines == [
        line
        for rank in (0, 1)
        for line in (f'[stdout:{rank}] ', f'rank {rank} of 2 tensor([3., 3.])')
    ]
    assert notebook(SUM) == first
    assert notebook('%%px --targets 1\nprint(rank, os.environ["RANK"])').split() == ['1', '1']
    assert notebook('print(ranks[:]["rank"])') == '[0, 1]\n'
    # What one rank raises is named, and the others go on.
    assert '[1:execute]ZeroDivisionError' in notebook('%%px\nif rank: 1 / 0', ok=False)
    # One that waits for another in vain gives up.
    waits = notebook('%%px\nif rank == 0: dist.all_reduce(torch.ones(1))', ok=False)
    assert '[0:execute]' in waits and 'imed out' in waits, waits
    # Started again, they take the place of the old ones, and of what these have started.
    notebook('%%px\nimport subprocess; _ = subprocess.Popen(["sleep", "600"])')
    old = notebook.started()
    assert sum(process.name() == 'sleep' for process in old) == 2
    notebook('ranks = mgpu.ranks(3)')
    gone(old)
    assert notebook('print(ranks[:]["world_size"])') == '[3, 3, 3]\n'
    died = notebook('%%px\nimport os\nif rank == 1: os._exit(3)', ok=False)
    assert 'Engine 1 died' in died
    assert 'start new ones with mgpu.ranks' in notebook('%%px\nprint(rank)', ok=False)


def test_a_killed_kernel_leaves_nothing(notebook):
    started = notebook.started()
    assert len(started) >= 3
    notebook.client.execute('%%px\nimport time; time.sleep(60)')
    time.sleep(1)
    os.kill(notebook.pid, signal.SIGKILL)
    gone([*started, psutil.Process(notebook.pid)])
    other = tempfile.mkdtemp(prefix='mgpu-ranks-')  # of whoever
    engines.sweep()  # what the next start does first
    os.rmdir(other)
    assert not list(Path(tempfile.gettempdir()).glob(f'mgpu-ranks-{notebook.pid}-*'))


def test_the_stop_button_and_two_notebooks_at_once(notebook):
    other = Notebook()
    try:
        other(START)
        threading.Timer(2, notebook.manager.interrupt_kernel).start()
        wait = '%%px\nimport time\nfor _ in range(600): time.sleep(0.1)'
        # An error, so that the cells after it do not run.
        assert 'KeyboardInterrupt' in notebook(wait, ok=False)
        # Stopped in a message: the rank hears it late, and the next cell still runs on both.
        threading.Timer(1, notebook.manager.interrupt_kernel).start()
        stuck = '%%px\nif rank == 0: dist.all_reduce(torch.ones(1))'
        assert 'KeyboardInterrupt' in notebook(stuck, ok=False)
        assert notebook('%%px\nprint(rank)').split() == ['[stdout:0]', '0', '[stdout:1]', '1']
        notebook(START)  # the group has given up
        assert notebook(SUM) == other(SUM)
    finally:
        started = other.started()
        other.client.stop_channels()
        other.manager.shutdown_kernel(now=False)
        gone(started)


def test_what_cannot_be_started_is_told():
    for k, words in ((0, 'at least 1, not 0'), (1000, 'at most 64'), (1.5, 'an integer')):
        with pytest.raises((TypeError, ValueError), match=f'the number of ranks must be {words}'):
            mgpu.ranks(k)


def test_a_controller_that_loses_its_processes_ends_the_start(monkeypatch):
    monkeypatch.setattr(engines, 'TIMEOUT', 10)

    def kill_its_children(children=()):
        while len(children) < 3:
            mine = psutil.Process().children()
            controllers = [p for p in mine if 'ipyparallel.controller' in p.cmdline()]
            children = [child for p in controllers for child in p.children()]
        for child in children[1:]:  # not the heartbeat
            child.kill()

    threading.Thread(target=kill_its_children, daemon=True).start()
    with pytest.raises(RuntimeError, match=r'2 ranks did not start within 10 s \(TimeoutError\)'):
        mgpu.ranks(2)
