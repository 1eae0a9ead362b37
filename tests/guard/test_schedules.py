"""Fuzzed schedules of 400 days: whatever is released when, no window costs more than its limit."""

from dataclasses import replace

import numpy as np
import pytest
from guard.files import period_of
from guard.test_nights import DAY, check, night

from flwr_kld.common.errors import QueryRefused
from flwr_kld.common.identity import Identity
from flwr_kld.guard.receipts import Receipts

DAYS, WINDOW, LIMIT = 400, 30, 10
LIMITS = period_of(WINDOW * DAY, epsilon=LIMIT, delta=1)
HONEST, LYING = 1, 90
"""Days after an answer within which a server may release what follows from it."""


def answered(file, latest, rng):
    """Ask on some 400 days for checks and nights; return what was answered, each until when."""
    found, now, open_sessions = [], 0.0, {}
    while now < DAYS * DAY:
        now += rng.exponential(1.5) * DAY
        until = now + rng.uniform(0, latest) * DAY
        name, epsilon = f"{len(found)} {now}", int(rng.integers(1, 7))
        if rng.random() < 0.5:
            claim = check(name, epsilon)
        else:
            session = str(rng.integers(8))
            number = open_sessions.get(session, 0) + int(rng.integers(1, 30))
            open_sessions[session] = number
            claim = night(number, session, epsilon)
        try:
            file.reserve(replace(claim, until=int(until)), int(now), LIMITS)
        except QueryRefused:
            continue
        found.append((int(now), int(until), claim.session or name, epsilon))
    return found


def worst_window(found):
    """The most that one window can cost, if a server releases each at its own worst moment.

    A session costs once, what its dearest night claims.
    """
    begin, until = (np.array([one[i] for one in found]) for i in (0, 1))
    most = 0
    for start in until:  # a window that begins any later misses one that it holds
        inside = np.flatnonzero((begin <= start + WINDOW * DAY) & (until >= start))
        dearest = {}
        for i in inside:
            name, epsilon = found[i][2:]
            dearest[name] = max(dearest.get(name, 0), epsilon)
        most = max(most, sum(dearest.values()))
    return most


@pytest.mark.parametrize("latest", [HONEST, LYING])
@pytest.mark.parametrize("seed", range(4))
def test_no_window_costs_more_than_its_limit(seed, latest, tmp_path):
    file = Receipts(tmp_path / "receipts.db", Identity.generate())
    found = answered(file, latest, np.random.default_rng(seed))
    assert len(found) > 30
    assert LIMIT / 2 < worst_window(found) <= LIMIT
