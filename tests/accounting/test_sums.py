"""Windows from blocks of checks: the same as check by check, in work that does not grow."""

from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa
from accounting.books import DAY, REPORT, SILENCE, ask, insert_checks, narrow, pure, stored
from accounting.conftest import NOW
from accounting.rebuilding import rebuild
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.accounting import (
    Budget,
    BudgetExhausted,
    Charge,
    Clients,
    Everyone,
    Ledger,
    RecordBuckets,
    books,
    sums,
    window,
)
from flwr_kld.accounting.parts import unpack
from flwr_kld.accounting.schema import checks
from flwr_kld.accounting.sums import WIDTH, pack_tally, unpack_tally
from flwr_kld.accounting.window import Window

COSTS = [pure(0.01), pure(0.02)]
PARTS = [Clients(["a"]), Clients(["b", "c"]), RecordBuckets("k", 3, [0, 2]), Everyone()]


def totals(spends):
    """How often each cost touched each part."""
    found = Counter()
    for spend in spends:
        times = np.broadcast_to(spend.times, spend.members.shape)
        for member, n in zip(spend.members.tolist(), times.tolist(), strict=True):
            found[spend.cost, spend.family, member] += n
    return found


def one_by_one(connection, since):
    """The same, from the checks' own rows."""
    found = Counter()
    rows = sums.releases(connection, "default", 0, None)
    started = dict(connection.execute(sa.select(checks.c.number, checks.c.started)).all())
    known = books.read_costs(connection, {row.cost for row in rows})
    for row in rows:
        if started[row.number] >= since:
            for member in unpack(row.members).tolist():
                found[known[row.cost], row.family, member] += 1
    return found


steps = st.lists(
    st.tuples(
        st.integers(0, 4),  # days
        st.lists(st.builds(Charge, st.sampled_from(COSTS), st.sampled_from(PARTS)),
                 min_size=1, max_size=2),
        st.sampled_from(["settle", "other cost", "fail", "crash"]),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps)
def test_a_window_is_the_sum_of_its_checks_wherever_it_begins(steps, quick_folder, monkeypatch):
    narrow(monkeypatch)
    path = quick_folder / "drift.db"
    path.unlink(missing_ok=True)
    ledger, clock = Ledger(f"sqlite:///{path}"), NOW
    budget = Budget(100.0, 1e-6, 10)
    ledger.set_budget(budget, now=NOW)
    for number, (days, asked, end) in enumerate(steps):
        clock += days * DAY
        reservation = ledger.reserve(f"{number}", asked, now=clock)
        if end == "fail":
            ledger.fail(reservation, SILENCE, now=clock)
        elif end != "crash":
            other = [COSTS[0] for _ in asked] if end == "other cost" else None
            ledger.settle(reservation, REPORT, delivered=other, now=clock)
    with ledger._database.writing() as connection:
        for now in range(int(NOW), int(clock) + 11 * DAY, 2 * DAY):
            got = Window(connection, budget, now).spends
            assert totals(got) == one_by_one(connection, now - 10 * DAY)
        kept = stored(connection)
        rebuild(connection)
        assert stored(connection) == kept


def test_a_tally_survives_packing():
    counted = np.array([[1, 1, 7], [0, 2**32 - 1, 5], [3, 1, 2**31]])
    assert unpack_tally(pack_tally(counted)).tolist() == counted.tolist()
    assert unpack_tally(pack_tally(counted[:, :0])).shape == (3, 0)


# ------------------------------------------------------------------------------------ the work


@pytest.fixture
def work(monkeypatch):
    """How many rows of sums and of releases were read, by what was asked."""
    read = Counter()

    def counted(name):
        original = getattr(sums, name)

        def rows(*arguments):
            found = original(*arguments)
            read[name] += len(found)
            return found

        for module in (sums, window):
            monkeypatch.setattr(module, name, rows)

    counted("blocks")
    counted("releases")
    return read


def filled(url, number, clients=20):
    """A ledger with so many checks of the same clients in the window, oldest a month old."""
    ledger = Ledger(url)
    ledger.set_budget(Budget(1.0, 1e-6, 30, composition="sum"), now=NOW)
    with ledger._database.writing() as connection:
        since = int(NOW) - 60 * number
        books.members(connection, "default", Clients(f"c{i}" for i in range(clients)))
        insert_checks(connection, [np.arange(clients)] * number, pure(2.5e-4), since=since)
        rebuild(connection)
    return ledger


PART = (WIDTH - 1) * 4
"""Most rows of a window that begins anywhere."""


def test_work_does_not_grow_with_the_checks_in_the_window(url, work):
    """3,000 checks whose sum of 0.75 nats has room for one more, and not for two."""
    ledger = filled(url, 3000)
    cases = {
        "spent": (lambda: ledger.spent(now=NOW), PART),
        "reserve": (lambda: ledger.reserve("next", ask(0.1, "c0", "new"), now=NOW), PART),
        "last asked": (lambda: ledger.rotation().last_asked(["c0", "c19", "new"]), PART),
    }
    for name, (run, most) in cases.items():
        work.clear()
        run()
        assert 0 < work.total() <= most, name
    work.clear()
    with pytest.raises(BudgetExhausted) as caught:
        ledger.reserve("more", ask(0.9, "c0"), now=NOW)
    assert 0 < work.total() <= PART + 4 * WIDTH
    leaving = caught.value.frees_at.timestamp() - (NOW - 60 * 3000 + 30 * DAY + 1)
    assert leaving >= 0
    assert leaving % 60 == 0
    # It fits then, and did not a second before.
    with pytest.raises(BudgetExhausted):
        ledger.reserve("more", ask(0.9, "c0"), now=caught.value.frees_at.timestamp() - 1)
    ledger.reserve("more", ask(0.9, "c0"), now=caught.value.frees_at.timestamp())


def test_work_follows_whom_is_looked_for_not_the_checks(url, ledger, work):
    """A cohort that was asked last is found in the last check; one asked long ago by its blocks."""
    with ledger._database.writing() as connection:
        books.members(connection, "default", Clients(f"c{i}" for i in range(4)))
        cohorts = [np.array([2])] + [np.array([i % 2]) for i in range(2000)]
        insert_checks(connection, cohorts, pure(1e-6))
        rebuild(connection)
    rotation = ledger.rotation()
    assert rotation.last_asked(["c0", "c1"]).tolist() == [2000, 2001]
    assert work.total() <= PART + 8
    work.clear()
    assert rotation.last_asked(["c2", "c3", "c0", "x"]).tolist() == [1, 0, 2000, 0]
    assert work.total() <= 2 * (PART + 8)
