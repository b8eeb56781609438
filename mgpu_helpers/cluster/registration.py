"""Who has registered with the scheduler, who is missing, and who waits for others in vain?"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..processes import Group
    from .placement import Role

# With PS_VERBOSE=2 the scheduler reports each node that registers, and each message after that. Two
# of its threads write at the same time, and now and then two reports come out mixed, in pieces.
TROUBLE = re.compile(r'Check failed|taken by another|terminate called|what\(\)|Traceback|Error')
ADDED = re.compile(r'cmd=ADD_NODE, node=\{ role=(server|worker), ip=([^,]+), port=(\d+),')
ALL_THERE = re.compile(r'the scheduler is connected to|cmd=BARRIER')
# A store waits at a barrier of all workers (group 4) in `init`, and when it is freed, as at a
# worker's end; a worker's id is 9 + 2 * rank, and worker i has rank i.
ARRIVES = re.compile(r'(\d+) => 1\. Meta: request=1.*cmd=BARRIER, barrier_group=4\b')
GOES_ON = re.compile(r'\? => (\d+)\. Meta: request=0.*cmd=BARRIER')
# A worker that leaves well lets the others wait for ever, if they still need the store. But one may
# also have more to do at its end, such as a plot: so we say it, and stop nobody.
PATIENCE = 30  # seconds


class Registration:
    """Reads what the scheduler reports, and knows when the time to register is over.

    That is ``limit`` seconds from now; all must end within ``lasting`` seconds after the store is
    up, which it has been since ``up_since`` (``time.monotonic``; None: not yet).
    """

    def __init__(
        self, roles: Sequence[Role], limit: float = 60, lasting: float | None = None
    ) -> None:
        _, *others = roles  # the scheduler does not register
        self._planned = {(role.kind, role.host.ip, role.port): role.name for role in others}
        self._there: set[tuple[str, str, int]] = set()
        self._at_barrier: set[str] = set()
        self._state: tuple[list[str], list[str]] = [], []  # who waits there, and who still runs
        self._since = float('inf')  # when that began
        self._limit, self._lasting = limit, lasting
        self._deadline = time.monotonic() + limit
        self._reports = False
        self.up_since: float | None = None

    def wait(self, group: Group, on_line: Callable[[str, str], object], **options: Any) -> None:
        """Wait for a group as ``Group.wait`` does, which has the other ``options``.

        ``on_line`` gets all but the scheduler's reports, and a sentence of the ``'cluster'`` itself
        if some are left alone.
        """

        def check() -> None:
            self._check(group.at_work)
            if sentence := self._left_alone(group.at_work):
                on_line('cluster', sentence)

        group.wait(lambda *line: self._read(*line) or on_line(*line), check=check, **options)

    def _read(self, name: str, text: str) -> bool:
        """Take note of a line; tell whether it is a report of the scheduler, not for the user."""
        if name != 'scheduler' or not (self._reports or 'ps-lite/' in text):
            return False
        self._reports = True
        self._there |= {(kind, host, int(port)) for kind, host, port in ADDED.findall(text)}
        self._at_barrier |= _workers(ARRIVES.findall(text))
        self._at_barrier -= _workers(GOES_ON.findall(text))
        if self.up_since is None and ALL_THERE.search(text):
            self.up_since = time.monotonic()
        # What ends the scheduler is of interest, such as a port that is taken.
        return not TROUBLE.search(text)

    def _check(self, at_work: list[str]) -> None:
        """Raise if a time is over, or if somebody registered from another port than planned.

        A node whose port is taken takes any other, and then ranks are not what they should be.
        """
        for kind, host, port in self._there - self._planned.keys():
            raise RuntimeError(
                f'a {kind} has registered from port {port} at {host}, and none should: another '
                f'program took its own port a moment ago, so that ranks would be mixed up, and all '
                'were stopped. Run again'
            )
        now = time.monotonic()
        if self.up_since is None and now > self._deadline:
            missing = [name for place, name in self._planned.items() if place not in self._there]
            raise TimeoutError(
                f'the store was not up after {self._limit:g} seconds; not registered with the '
                f'scheduler: {", ".join(missing) or "nobody"}; all were stopped. Does each call '
                "mx.kv.create with a kind that begins with 'dist_', and early enough? "
                '(--connect-timeout of launch sets the limit)'
            )
        if self._lasting and self.up_since and now > self.up_since + self._lasting:
            late = ', '.join(at_work)
            raise TimeoutError(f'{late} still at work after {self._lasting} seconds: stopped')

    def _left_alone(self, at_work: list[str]) -> str | None:
        """Give a sentence, once, if some have waited, or ended, for ``PATIENCE`` seconds."""
        now, waiting = time.monotonic(), sorted(self._at_barrier)
        if (waiting, at_work) != self._state:
            self._state, self._since = (waiting, at_work), now
        workers = [name for name in self._planned.values() if name.startswith('worker')]
        ended = ', '.join(name for name in workers if name not in at_work)
        if not (waiting or ended) or now < self._since + PATIENCE:
            return None
        self._since = float('inf')  # said
        working = ', '.join(name for name in at_work if name not in waiting)
        return (
            f'no worker has come or gone for {PATIENCE} seconds; ended: {ended or "none"}; '
            f'waiting for all, at the end or in init: {", ".join(waiting) or "none"}; still at '
            f'work: {working or "none"}. Whoever waits for one that comes no more does so for '
            'ever, until Ctrl-C or a timeout ends all'
        )


def _workers(ids: Sequence[str]) -> set[str]:
    return {f'worker {(int(number) - 9) // 2}' for number in ids}
