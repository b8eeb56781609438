"""training/parallel.py: a mesh equals one device, and another mesh resumes from its checkpoint."""

import re
import subprocess
import sys

import pytest
from checkouts import ROOT

torch = pytest.importorskip('torch', reason='PyTorch is not installed')
sys.path.append(str(ROOT / 'training'))
parallel = pytest.importorskip('parallel')


def one_device(steps, batch=15):
    """Train the same network without any wrapper; give each step's loss and norm."""
    torch.manual_seed(0)
    net = parallel.gpt().double()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    text = torch.tensor(list((ROOT / 'training/parallel.py').read_bytes()))
    for step in range(1, steps + 1):
        chance = torch.Generator().manual_seed(step)
        starts = torch.randint(len(text) - parallel.TOKENS, (batch,), generator=chance)
        tokens = torch.stack([text[i : i + parallel.TOKENS + 1] for i in starts])
        scores = net(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        yield loss.item(), norm.item()


@pytest.fixture
def torchrun(started):
    def start(ranks, *options):
        command = ['-m', 'torch.distributed.run', '--standalone', f'--nproc-per-node={ranks}']
        script = [ROOT / 'training/parallel.py', '--dtype', 'float64', '--batch', 15]
        done = subprocess.run(
            [sys.executable, *command, *map(str, [*script, *options])],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found = re.findall(r'step (\d+): loss ([\d.]+), norm of the gradient ([\d.]+)', done.stdout)
        return {int(step): [float(loss), float(norm)] for step, loss, norm in found}

    return start


def test_a_mesh_equals_one_device_and_another_resumes_from_its_checkpoint(torchrun, tmp_path):
    """15 sequences, which two rows cannot share equally."""
    there = '--checkpoint', tmp_path / 'runs'
    saved = torchrun(4, '--tensor', 2, '--steps', 2, *there)
    assert [path.name for path in (tmp_path / 'runs').iterdir()] == ['step-00000-00000002']
    (tmp_path / 'runs' / '.new-step-00000-00000009').mkdir()  # as a save that was killed leaves it
    resumed = torchrun(2, '--replicas', 2, '--steps', 4, *there)
    assert (list(saved), list(resumed)) == ([1, 2], [3, 4])
    for step, expected in enumerate(one_device(4), 1):
        assert (saved | resumed)[step] == pytest.approx(expected, abs=1e-10)
