"""Chapter 9: ranks against one device in float64, with shapes that the notebook has not."""

import itertools
import json
import sys

import pytest
from checkouts import ROOT

torch = pytest.importorskip('torch', reason="PyTorch is not installed: 'make setup TORCH=1'")

import torch.distributed as dist  # noqa: E402

from mgpu_helpers.processes import ProcessFailed  # noqa: E402
from mgpu_helpers.pytorch import (  # noqa: E402
    PAD,
    SYMBOLS,
    AllExperts,
    Experts,
    Router,
    attend,
    balance,
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

pytestmark = pytest.mark.usefixtures('started')


def tokens(n, t, seed=0):
    chosen = torch.Generator().manual_seed(seed)
    both = torch.randint(1, SYMBOLS, (n, t + 1), generator=chosen)
    return both[:, :-1], both[:, 1:].clone()


def ways(k, heads):
    """Give the ways to attend that k ranks have, each with the pieces that they hold."""
    rings = [(ring(pieces), pieces) for pieces in (contiguous(k), zigzag(k))]
    return rings + [(ulysses, contiguous(k))] * (heads % k == 0)


def context(k, shapes):
    found = []
    for n, t, heads in shapes:
        sizes = {'width': 4 * heads, 'heads': heads, 'depth': 1}
        both = [(attend, contiguous(1))] if k == 1 else ways(k, heads)
        found.append(by_context(*tokens(n, t), *both, **sizes))
    return found


def compare_context(k, shapes):
    ones, ranks = launch(context, 1, 1, shapes)[0], launch(context, k, k, shapes)
    for i, (n, t, heads) in enumerate(shapes):
        bytes_of_keys = n * heads * t // k * 4 * 8
        rings, exchange = 2 * bytes_of_keys * (3 * k - 2), 8 * bytes_of_keys * (k - 1) // k
        for found, sent in zip(zip(*(rank[i] for rank in ranks)), (rings, rings, exchange)):
            assert worst(found, ones[i][0]) < 1e-10
            for one in found:
                assert sum(one.sent.get(kind, 0) for kind in ('send', 'alltoall')) == sent


def test_three_ranks_share_a_sequence():
    compare_context(3, [(1, 6, 3), (2, 30, 3), (3, 18, 2)])


@pytest.mark.slow
@pytest.mark.parametrize('k', [2, 4, 5])
def test_ranks_share_a_sequence(k):
    lengths = [2 * k, 6 * k, 16 * k]
    compare_context(k, [(n, t, heads) for t in lengths for n, heads in ((1, k), (3, 3))])


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
@pytest.mark.parametrize('k', [2, 3])
def test_real_sockets_carry_what_the_formulas_say(k):
    formulas = [2 * (3 * k - 2)] * 2 + [8 * (k - 1) / k]
    for found in launch(bytes_on_sockets, k):
        assert found == pytest.approx(formulas, rel=0.01)
        assert all(a >= b for a, b in zip(found, formulas))


def refused(length, heads, pieces):
    sizes = {'width': 4 * heads, 'heads': heads, 'depth': 1}
    told = []
    for way in (ring(pieces), ulysses):
        try:
            by_context(*tokens(1, length), (way, pieces), **sizes)
        except ValueError as error:
            told.append(str(error))
    return told


def test_what_cannot_be_cut_is_refused_and_the_error_says_what_to_do():
    told = launch(refused, 3, 20, 3, contiguous(3))[0]
    words = '20 tokens cannot be cut into 3 equal pieces: pad the sequence with PAD to 21'
    assert len(told) == 2 and told[0].startswith(words)
    (told,) = launch(refused, 3, 21, 4, contiguous(3))[0]
    assert told.startswith('3 ranks cannot share 4 heads: use 2, or a ring')
    with pytest.raises(ProcessFailed, match='experts must be 2, one a rank, not 3'):
        launch(lambda: moe(Experts, 3), 2)


def counted(batches):
    found = []
    for x, y in batches:
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


def test_each_token_counts_once_also_where_a_rank_has_padding_alone_or_no_sequence():
    batches = list(padded_batches())
    one, three = launch(counted, 1, batches)[0], launch(counted, 3, batches)
    for i in range(len(one)):
        assert worst([rank[i] for rank in three], one[i // 4 * 4]) < 1e-12
    x, _ = batches[0]
    with pytest.raises(ProcessFailed, match='y must be a token on some rank, not .padding alone'):
        launch(lambda: found_by(gpt(16, 2, 1), x, torch.zeros_like(x)), 1)


class Lopsided(Router):
    """Chooses expert 0 or 1, and no other one."""

    def forward(self, tokens):
        super().forward(tokens)
        probs, choice = self.last
        self.last = probs, choice % 2
        return probs.gather(1, choice[:, None] % 2)[:, 0], choice % 2


def experts(layer, k, batches):
    found = []
    for (x, y), router in itertools.product(batches, (Router, Lopsided)):
        net = moe(layer, k, router, width=8, heads=2, depth=2)
        result = found_by(net, shard_of(x), shard_of(y))
        term = balance(*net.blocks[0].mlp.router.last).detach()
        dist.all_reduce(term)
        found.append((result, float(term)))
    return found


def compare_experts(k, batches):
    (ones,), ranks = (
        launch(experts, 1, AllExperts, k, batches),
        launch(experts, k, Experts, k, batches),
    )
    for i, (one, balanced) in enumerate(ones):
        found = [rank[i][0] for rank in ranks]
        assert worst(found, one) < 1e-10
        assert {name for f in found for name in f.grads} == set(one.grads)
        assert all(rank[i][1] == pytest.approx(balanced, rel=1e-12) for rank in ranks)


def test_experts_on_three_ranks_also_one_without_a_token_and_a_rank_without_a_sequence():
    compare_experts(3, [tokens(3, 10), tokens(2, 7), *padded_batches()])


@pytest.mark.slow
@pytest.mark.parametrize('k', [2, 4, 5])
def test_experts_on_ranks(k):
    compare_experts(k, [tokens(k, 5), tokens(2 * k + 1, 9), tokens(1, 3)])


def test_sentences_come_from_the_course_or_from_a_folder(tmp_path):
    found = course_sentences()
    assert len(found) > 1000 and all(20 <= len(sentence) <= 94 for sentence in found)
    assert all(decode(encode(sentence)) == sentence for sentence in found)
    assert found == course_sentences(ROOT / 'notebooks')
    text = '# A *heading* of some length\n\nOne [sentence](x.md), which is *here*. | no'
    cells = [{'cell_type': 'markdown', 'source': [text]}]
    (tmp_path / '01-x.ipynb').write_text(json.dumps({'cells': cells}), encoding='utf8')
    assert course_sentences(tmp_path) == ['One sentence, which is here.']
    with pytest.raises(FileNotFoundError, match='no chapter in .*: start in a folder'):
        course_sentences(tmp_path / 'none')
    x, y = shifted([encode('ab'), encode('abcd')])
    assert x.shape == y.shape == (2, 5) and int((y == PAD).sum()) == 2
    assert x[1, 1:].tolist() == y[1, :-1].tolist()
