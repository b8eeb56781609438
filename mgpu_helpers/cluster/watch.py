"""Who has registered with the scheduler, who is missing, and who has left the others alone?"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .roles import Role

# With PS_VERBOSE=2 the scheduler reports each node that registers, and each message after that. Two
# of its threads write at the same time, and now and then two reports come out mixed, in pieces.
REPORT = re.compile(r'ps-lite/')
TROUBLE = re.compile(r'Check failed|taken by another|terminate called|what\(\)|Traceback|Error')
ADDED = re.compile(r'cmd=ADD_NODE, node=\{ role=(\w+), ip=([^,]+), port=(\d+), is_recovery=')
# A worker that leaves well lets the others wait for ever, if they still need the store. But one may
# also have more to do at its end, such as a plot: so we say it, and stop nobody.
PATIENCE = 30  # seconds
ALL_THERE = re.compile(r'the scheduler is connected to|cmd=BARRIER')
# A store waits at a barrier of all workers (group 4) when it is freed, as at a worker's end, and in
# `init`; a worker's id is 9 + 2 * rank, and worker i has rank i.
ARRIVES = re.compile(r'(\d+) => 1\. Meta: request=1.*cmd=BARRIER, barrier_group=4\b')
GOES_ON = re.compile(r'\? => (\d+)\. Meta: request=0.*cmd=BARRIER')


class Watch:
    """Reads what the scheduler says, and knows when the time to register is over.

    That is ``limit`` seconds from now. ``up_since`` is when everybody had registered and the store
    was up (``time.monotonic``), None until then.
    """

    def __init__(self, roles: Sequence[Role], limit: float) -> None:
        self._missing = {(r.kind, r.host, r.port): r.name for r in roles if r.kind != 'scheduler'}
        self._places = set(self._missing)
        self._stranger: tuple[str, str, int] | None = None
        self._workers = [role.name for role in roles if role.kind == 'worker']
        self._waiting: set[str] = set()  # those at a barrier
        self._state: tuple[set[str], list[str]] = set(), self._workers
        self._since: float | None = None  # when that began, until it was said
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self._reports = False
        self.up_since: float | None = None

    def line(self, name: str, text: str) -> bool:
        """Take note of a line; tell whether it is a report of the scheduler, not for the user."""
        if name != 'scheduler' or not (self._reports or REPORT.search(text)):
            return False
        self._reports = True
        for kind, host, port in ADDED.findall(text):
            place = kind, host, int(port)
            self._missing.pop(place, None)
            if kind != 'scheduler' and place not in self._places:
                self._stranger = place
        for number in ARRIVES.findall(text):
            self._waiting.add(f'worker {(int(number) - 9) // 2}')
        for number in GOES_ON.findall(text):
            self._waiting.discard(f'worker {(int(number) - 9) // 2}')
        if self.up_since is None and ALL_THERE.search(text):
            self.up_since = time.monotonic()
        # What ends the scheduler is of interest, such as a port that is taken.
        return not TROUBLE.search(text)

    def check(self) -> None:
        """Raise if the time is over, or if somebody registered from another port than planned.

        A node whose port is taken takes any other, and then ranks are not what they should be.
        """
        if self._stranger:
            kind, host, port = self._stranger
            raise RuntimeError(
                f'a {kind} has registered from port {port} at {host}, and none should: another '
                f'program took its own port a moment ago, so that ranks would be mixed up, and all '
                'were stopped. Run again'
            )
        if self.up_since is None and time.monotonic() > self._deadline:
            who = ', '.join(self._missing.values()) or 'nobody, but the store'
            have = 'has' if len(self._missing) == 1 else 'have'
            raise TimeoutError(
                f'the store was not up after {self._limit:g} seconds: {who} {have} not registered '
                'with the scheduler, and all were stopped. Does it call mx.kv.create with a kind '
                "that begins with 'dist_', and early enough? (connect_timeout sets the limit)"
            )

    def left_alone(self, at_work: list[str], way_out: str) -> str | None:
        """Give a sentence if, for ``PATIENCE`` seconds, some have waited for others, or ended.

        ``at_work`` are the workers that still run. It is said once, until something changes.
        """
        if (self._waiting, at_work) != self._state:
            self._state, self._since = (set(self._waiting), at_work), time.monotonic()
        states = {
            'ended': [name for name in self._workers if name not in at_work],
            'waiting for all, at the end or in init': sorted(self._waiting & set(at_work)),
            'still at work': [name for name in at_work if name not in self._waiting],
        }
        several = sum(map(bool, states.values())) > 1
        if not several or not self._since or time.monotonic() < self._since + PATIENCE:
            return None
        self._since = None
        who = '; '.join(f'{what}: {", ".join(names)}' for what, names in states.items() if names)
        return (
            f'no worker has come or gone for {PATIENCE} seconds ({who}). Whoever waits for one '
            f'that comes no more does so for ever: {way_out}'
        )
