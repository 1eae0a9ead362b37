"""Whatever is tried in whatever order: nobody is charged more than the budget in any window."""

import shutil
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger.books import DAY, REPORT, SILENCE, pure
from ledger.conftest import NOW

from examples import examples
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import (
    Budget,
    BudgetExhausted,
    Charge,
    Cost,
    Ledger,
)
from flwr_kld.ledger.composition import composed_epsilon
from flwr_kld.ledger.entry import AlreadyChecked, CheckUnfinished
from flwr_kld.trust.calibration import calibrated_laplace

WINDOW = 10
NAMES = "abcd"
LAPLACE = Cost.of(calibrated_laplace(Guarantee(0.25)))
COSTS = [pure(0.25), pure(0.5), pure(0.125, delta=4e-7), LAPLACE]

clients = st.sets(st.sampled_from(NAMES), min_size=1)
charges = st.builds(Charge, st.sampled_from(COSTS), clients)
attempts = st.lists(
    st.tuples(
        st.integers(-3, 5),  # days that the clock moves
        st.integers(0, 15),  # key
        charges,
        st.sampled_from(["settle", "less", "fail", "crash"]),
    ),
    max_size=25,
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Path:
    """A ledger's file, to copy."""
    path = tmp_path_factory.mktemp("empty") / "drift.db"
    Ledger(f"sqlite:///{path}")
    return path


def needed(spends, budget):
    """A person's guarantee by exact sums, or by distributions if those are allowed."""
    epsilon = sum(cost.epsilon for cost in spends)
    bounds = [epsilon] if sum(c.delta for c in spends) <= budget.exact_delta else []
    if budget.composition == "pld" and spends:
        kinds = {cost: list(spends).count(cost) for cost in spends}
        bounds.append(composed_epsilon(tuple(kinds.items()), budget.delta))
    return min(bounds, default=float("inf"))


@pytest.mark.parametrize("composition", ["sum", "pld"])
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tried=attempts)
def test_nobody_is_charged_more_than_the_budget_and_nothing_that_fits_is_refused(
    empty, quick_folder, composition, tried
):
    shutil.copy(empty, quick_folder / "drift.db")
    url, clock, seen = f"sqlite:///{quick_folder}/drift.db", NOW, NOW
    budget = Budget(1.0, 1e-6, WINDOW, composition=composition)
    ledger = Ledger(url)
    ledger.set_budget(budget, now=NOW)
    books, closed = [], {}  # (time, charge), and the state of each key

    def needs(client, until, new=()):
        """What a client's window that ends then needs, with further charges."""
        since = until - WINDOW * DAY
        inside = [charge for time, charge in books if since <= time <= until]
        return together(tuple(c.cost for c in (*inside, *new) if client in c.clients))

    @cache
    def together(costs):
        return needed(costs, budget)

    for days, key, asked, end in tried:
        clock += days * DAY
        seen = max(seen, clock)
        try:
            reservation = ledger.reserve(f"{key}", asked, now=clock)
        except (BudgetExhausted, AlreadyChecked, CheckUnfinished) as refused:
            why = type(refused)
        else:
            why = None
        ran = {
            "settled": [AlreadyChecked],
            "failed": [AlreadyChecked],
            "reserved": [CheckUnfinished],
        }
        assert why in ran.get(closed.get(f"{key}"), [None, BudgetExhausted])
        if why is BudgetExhausted:  # then it has no room, for somebody whom it asks
            assert max(needs(client, seen, [asked]) for client in asked.clients) > 1
        if why is not None:
            continue
        if end == "settle":
            ledger.settle(reservation, REPORT, now=clock)
        elif end == "less":
            asked = Charge(pure(0.0625), asked.clients)
            ledger.settle(reservation, REPORT, delivered=asked.cost, now=clock)
        elif end == "fail":
            ledger.fail(reservation, SILENCE, now=clock)
        closed[f"{key}"] = {"fail": "failed", "crash": "reserved"}.get(end, "settled")
        books.append((seen, asked))

    assert {entry.key: entry.state for entry in ledger.history()} == closed
    for end in {time for time, _ in books}:
        assert max(needs(client, end) for client in NAMES) <= 1
    most = max(needs(client, seen) for client in NAMES)
    assert Ledger(url).spent(now=clock).epsilon == pytest.approx(float(most), abs=1e-8)
