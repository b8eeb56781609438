"""Chapter 9: ranks against one device in float64, with shapes that the notebook has not."""

import itertools
import sys
from functools import partial

import pytest
from checkouts import ROOT

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import torch.distributed as dist  # noqa: E402
from ten_steps import refused  # noqa: E402

from mgpu_helpers.pytorch import (  # noqa: E402
    PAD,
    SYMBOLS,
    AllExperts,
    Experts,
    Router,
    attend,
    by_context,
    contiguous,
    course_sentences,
    decode,
    encode,
    found_by,
    gpt,
    launch,
    moe,
    ring,
    shard_of,
    shifted,
    ulysses,
    worst,
    zigzag,
)
from mgpu_helpers.pytorch.language import text  # noqa: E402

pytestmark = pytest.mark.usefixtures('without_compiler')
SHAPES = (1, 6, 3), (2, 30, 3), (3, 18, 2)  # sequences, tokens, heads


def tokens(n, t, seed=0):
    chosen = torch.Generator().manual_seed(seed)
    both = torch.randint(1, SYMBOLS, (n, t + 1), generator=chosen)
    return both[:, :-1], both[:, 1:].clone()


def ways(k, heads):
    """Give the ways to attend that k ranks have, each with the pieces that they hold."""
    rings = [(ring(pieces), pieces) for pieces in (contiguous(k), zigzag(k))]
    return rings + [(ulysses, contiguous(k))] * (heads % k == 0)


def context(k):
    found = []
    for n, t, heads in SHAPES:
        sizes = {'width': 4 * heads, 'heads': heads, 'depth': 1}
        both = [(attend, contiguous(1))] if k == 1 else ways(k, heads)
        found.append(by_context(*tokens(n, t), *both, **sizes))
    return found


def bytes_on_sockets():
    from mgpu_helpers.cluster import socket_bytes

    k, found = dist.get_world_size(), []
    for way, _ in ways(k, k):
        q, k_, v = (torch.randn(1, k, 900, 32, requires_grad=True) for _ in range(3))
        for _ in range(2):  # the first time, connections are made
            dist.barrier()
            before = socket_bytes().sent
            way(q, k_, v).sum().backward()
            dist.barrier()
        found.append((socket_bytes().sent - before) / q.nbytes)
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='asks the Linux kernel')
def test_real_sockets_carry_what_the_formulas_say():
    formulas = [2 * (3 * 3 - 2)] * 2 + [8 * (3 - 1) / 3]
    for found in launch(bytes_on_sockets, 3):
        assert found == pytest.approx(formulas, rel=0.01)
        assert all(a >= b for a, b in zip(found, formulas))


def what_is_refused(k):
    batch = tokens(1, 20)[0], torch.zeros(1, 20, dtype=int)
    refused(('y must be a token on some rank', found_by, gpt(16, 2, 1), *batch))
    if k == 1:
        return
    refused(('experts must be 3, one per rank, not 2', moe, Experts, 2))
    rows = contiguous(k)
    for way in (ring(rows), ulysses):
        words = '20 tokens cannot be cut into 3 equal pieces: pad the sequence with PAD to 21'
        refused((words, by_context, *tokens(1, 20), (way, rows)))
    words = 'cannot split 4 heads over 3 ranks: use 2, or a ring'
    refused((words, partial(by_context, width=16, heads=4), *tokens(1, 21), (ulysses, rows)))


def counted():
    found = []
    for x, y in padded_batches():
        x, y = shard_of(x), shard_of(y)
        found += [found_by(gpt(16, 2, 1), x, y, m) for m in (1, 2, 4, 7)]
    return found


def padded_batches():
    """Give batches of which the last rank's sequences are padding, of six sequences and of two."""
    for n in (6, 2):
        x, y = tokens(n, 12)
        for i, row in enumerate(y):
            row[3 + i :] = PAD
        y[n // 2 :] = PAD
        yield x, y


class Lopsided(Router):
    """Chooses expert 0 or 1, and no other one."""

    def forward(self, tokens):
        super().forward(tokens)
        probs, choice = self.last
        self.last = probs, choice % 2
        return probs.gather(1, choice[:, None] % 2)[:, 0], choice % 2


def experts(layer):
    found = []
    batches = [tokens(3, 10), tokens(2, 7), *padded_batches()]
    for (x, y), router in itertools.product(batches, (Router, Lopsided)):
        net = moe(layer, 3, router, width=8, heads=2, depth=2)
        found.append(found_by(net, shard_of(x), shard_of(y)))
    return found


def in_each_rank(k):
    what_is_refused(k)
    return context(k), counted(), experts(AllExperts if k == 1 else Experts)


@pytest.fixture(scope='module')
def one():
    return launch(in_each_rank, 1, 1)[0]


@pytest.fixture(scope='module')
def ranks():
    return launch(in_each_rank, 3, 3)


def test_three_ranks_share_a_sequence(one, ranks):
    for i, (n, t, heads) in enumerate(SHAPES):
        bytes_of_keys = n * heads * t // 3 * 4 * 8
        rings, exchange = 2 * bytes_of_keys * 7, 8 * bytes_of_keys * 2 // 3
        for found, sent in zip(zip(*(rank[0][i] for rank in ranks)), (rings, rings, exchange)):
            assert worst(found, one[0][i][0]) < 1e-10
            for of_rank in found:
                assert sum(of_rank.sent.get(kind, 0) for kind in ('send', 'alltoall')) == sent


def test_each_token_counts_once_also_where_a_rank_has_padding_alone_or_no_sequence(one, ranks):
    for i in range(len(one[1])):
        assert worst([rank[1][i] for rank in ranks], one[1][i // 4 * 4]) < 1e-12


def test_experts_on_ranks_also_one_without_a_token_and_a_rank_without_a_sequence(one, ranks):
    for i, alone in enumerate(one[2]):
        found = [rank[2][i] for rank in ranks]
        assert worst(found, alone) < 1e-10
        assert {name for f in found for name in f.grads} == set(alone.grads)


def test_sentences_are_found_from_a_folder_of_the_course(tmp_path, monkeypatch):
    found = course_sentences()
    assert len(found) == 1601 and all(20 <= len(sentence) <= 94 for sentence in found)
    assert all(decode(encode(sentence)) == sentence for sentence in found)
    monkeypatch.setattr(text, '__file__', f'{tmp_path}/x/site-packages/a/b/text.py')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match='sentences.txt was not found: run this inside'):
        course_sentences()
    monkeypatch.chdir(ROOT / 'notebooks')
    assert found == course_sentences()


def test_sequences_are_shifted_by_one_and_padded():
    x, y = shifted([encode('ab'), encode('abcd')])
    assert x.shape == y.shape == (2, 5) and int((y == PAD).sum()) == 2
    assert x[1, 1:].tolist() == y[1, :-1].tolist()
