"""Windows: what they hold check by check, when there is room again, and whose turn it is."""

from collections import Counter

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger.books import DAY, REPORT, SILENCE, ask, insert_checks, pure, tables
from ledger.conftest import NOW

from examples import examples
from flwr_kld.ledger import Budget, BudgetExhausted, Charge, Ledger
from flwr_kld.ledger import rows as books
from flwr_kld.ledger.schema import checks
from flwr_kld.ledger.window import Window

COSTS = [pure(0.01), pure(0.02)]
CLIENTS = [["a"], ["b", "c"], ["a", "c"]]


def totals(found):
    """How often each cost touched each client."""
    counted = Counter()
    for spend in found:
        for member, n in zip(spend.members.tolist(), spend.times.tolist(), strict=True):
            counted[spend.cost, member] += n
    return counted


def one_by_one(connection, since):
    """The same, from the checks' own rows."""
    found = Counter()
    rows = connection.execute(sa.select(checks).where(checks.c.asked.is_not(None))).all()
    known = books.read_costs(connection, {row.delivered or row.asked for row in rows})
    for row in rows:
        if row.started >= since:
            for member in books.unpack(row.members).tolist():
                found[known[row.delivered or row.asked], member] += 1
    return found


steps = st.lists(
    st.tuples(
        st.integers(0, 4),  # days
        st.builds(Charge, st.sampled_from(COSTS), st.sampled_from(CLIENTS)),
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
def test_a_window_is_the_sum_of_its_checks_wherever_it_begins(steps, quick_folder):
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
            other = COSTS[0] if end == "other cost" else None
            ledger.settle(reservation, REPORT, delivered=other, now=clock)
    with tables(ledger).reading() as connection:
        for now in range(int(NOW), int(clock) + 11 * DAY, 2 * DAY):
            got = Window(connection, budget, now).spends()
            assert totals(got) == one_by_one(connection, now - 10 * DAY)


def test_what_has_no_room_says_to_the_second_when_it_fits(url):
    """300 checks whose sum of 0.75 nats has room for one more, and not for two."""
    ledger = Ledger(url)
    ledger.set_budget(Budget(1.0, 1e-6, 30, composition="sum"), now=NOW)
    with tables(ledger).writing() as connection:
        since = int(NOW) - 60 * 300
        books.members(connection, "default", [f"c{i}" for i in range(20)])
        insert_checks(connection, [np.arange(20)] * 300, pure(2.5e-3), since=since)
    ledger.reserve("next", ask(0.1, "c0", "new"), now=NOW)
    with pytest.raises(BudgetExhausted) as caught:
        ledger.reserve("more", ask(0.9, "c0"), now=NOW)
    frees = caught.value.frees_at.timestamp()
    leaving = frees - (since + 30 * DAY + 1)
    assert leaving >= 0
    assert leaving % 60 == 0
    # It fits then, and did not a second before.
    with pytest.raises(BudgetExhausted):
        ledger.reserve("more", ask(0.9, "c0"), now=frees - 1)
    ledger.reserve("more", ask(0.9, "c0"), now=frees)


def test_whoever_was_asked_long_ago_is_found(ledger):
    with tables(ledger).writing() as connection:
        books.members(connection, "default", [f"c{i}" for i in range(4)])
        cohorts = [np.array([2])] + [np.array([i % 2]) for i in range(2000)]
        insert_checks(connection, cohorts, pure(1e-6))
    assert ledger.last_asked(["c0", "c1"]).tolist() == [2000, 2001]
    assert ledger.last_asked(["c2", "c3", "c0", "x"]).tolist() == [1, 0, 2000, 0]
