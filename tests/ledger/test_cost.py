"""Kinds of releases: what they say of themselves, what they cost a budget, and their rows."""

import math
from fractions import Fraction
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledger.books import pure

from flwr_kld.common.errors import LedgerUnavailable
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import Ball, WholeClients
from flwr_kld.kernel.release import Release
from flwr_kld.ledger import Budget, Cost
from flwr_kld.ledger.budget import UNBOUNDED, exact
from flwr_kld.ledger.rows import cost_of, cost_row
from flwr_kld.trust.calibration import calibrate_shares, calibrated_laplace
from flwr_kld.trust.noise_laws import discrete_laplace

LAPLACE = calibrated_laplace(Guarantee(0.5))


def test_amounts_are_what_their_floats_were_meant_to_be():
    cost = pure(0.100000000001, delta=1.1e-18)
    assert (cost.epsilon, cost.delta) == (Fraction("0.100000000001"), Fraction("1.1e-18"))
    assert pure(0.1).epsilon == Fraction(1, 10)
    for parts in (3, 7, 11, 31, 49, 365):
        assert pure(1 / parts).epsilon * parts == 1
        assert pure(2 / parts, delta=1e-6 / parts).epsilon * parts == 2
    assert pure(0.1 + 0.2).epsilon == Fraction(3, 10)
    assert pure(0.300000000000003).epsilon > Fraction(3, 10)  # a float of its own


@pytest.mark.parametrize("whole", [1.0, 0.3, 8.0, 1 / 3, 1e-6, 1e-5, 3e-7])
def test_equal_parts_of_an_amount_are_that_amount(whole):
    for parts in range(2, 400):
        assert parts * exact(whole / parts) == exact(whole)


@given(st.floats(1e-9, 1e5))
def test_an_amount_is_its_float(epsilon):
    assert abs(pure(epsilon).epsilon - Fraction(epsilon)) <= Fraction(epsilon) / 2**52
    assert cost_of(SimpleNamespace(**cost_row(pure(epsilon)))) == pure(epsilon)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0, 1), (10**19, 0), (1, 10**19), (1, -1), (0.5, 0), (True, 0)]
)
def test_amounts_that_no_ledger_keeps_are_refused_where_they_are_given(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        Cost("draws", epsilon, delta, "record")


def test_a_budget_is_exact_and_checked():
    assert Budget(0.100000000001, 1e-6, 30).exact_epsilon == Fraction("0.100000000001")
    assert Budget(1 / 3, 1e-6, 30).exact_epsilon == Fraction(1, 3)
    assert (Budget(1, 1e-6, 0.1).seconds, Budget(1, 1e-6, 365).seconds) == (8640, 31_536_000)
    for wrong in (
        {"epsilon": 0.0}, {"epsilon": math.inf}, {"epsilon": 1e-10}, {"epsilon": 1e7},
        {"delta": 1.0}, {"delta": -0.1}, {"window_days": 0.0}, {"window_days": math.nan},
        {"window_days": 40_000.0}, {"population": ""}, {"composition": "max"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"must|name"):
            Budget(**{"epsilon": 1.0, "delta": 0.0, "window_days": 1.0, **wrong})


def test_what_clients_noise_delivered_counts_and_not_its_table():
    event = Release(
        "distributed discrete-laplace", LAPLACE.table, (1, -1), Guarantee(0.5, 1e-9),
        delivered=0.75,
    )  # fmt: skip
    assert (Cost.of(event).epsilon, Cost.of(event).table) == (Fraction(3, 4), None)
    assert Cost.of(LAPLACE).table == LAPLACE.table


def test_a_whole_clients_counts_have_no_known_worst_move():
    event = Release(
        "discrete-laplace", discrete_laplace(20.0), Ball(1, 10, 10),
        Guarantee(0.5, 0.0, protects=WholeClients(5)),
    )  # fmt: skip
    assert Cost.of(event).table is None
    clients = Guarantee(1.0, 1e-6, protects=WholeClients(5))
    share = calibrate_shares(clients, n_min=10, moves=Ball(1, 3, 3))
    assert Cost.of_shares(share, 10).table is None
    assert Cost.of_shares(share, 10).epsilon == 1


def test_a_table_too_long_to_keep_counts_by_epsilon():
    long = Release(
        "x", discrete_laplace(6000.0), (1,), Guarantee(0.5, 0.0, protects=WholeClients(1))
    )
    assert Cost.of(long).table is None


def test_without_an_honest_survivor_nothing_is_promised():
    share = calibrate_shares(Guarantee(1.0, 1e-6), n_min=5)
    assert Cost.of_shares(share, 5, corrupted=5).epsilon == UNBOUNDED


# --------------------------------------------------------------------------------------- rows


def row(cost, **changed):
    return SimpleNamespace(**{**cost_row(cost), **changed})


@pytest.mark.parametrize(
    "cost",
    [
        pure(0.25, delta=1e-7),
        Cost.of(LAPLACE),
        Cost.of_shares(calibrate_shares(Guarantee(1.0, 1e-6), n_min=5), 5),
        Cost.gaussian(1.7, 1e-9, "client"),
    ],
)
def test_a_row_holds_all_that_accounting_reads(cost):
    again = cost_of(row(cost))
    assert again == cost
    assert vars(again) | {"digest": "", "noise": b""} == vars(cost) | {"digest": "", "noise": b""}
    assert {type(value) for value in cost_row(cost).values()} <= {int, str, bytes}


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 1},
        {"delta": 1},
        {"protects": "client"},
        {"protects": "nobody"},
        {"protects": None},
        {"shifts": "[2, -2]"},
        {"shifts": "["},
        {"shifts": "[1.0, -1.0]"},
        {"shifts": "[true, -1]"},
        {"shifts": '["1", -1]'},
        {"shifts": '{"1": -1}'},
        {"shifts": None},
        {"epsilon": "1/3"},
        {"epsilon": "1/0"},
        {"epsilon": "half"},
        {"epsilon": "-1"},
        {"epsilon": None},
        {"mechanism": 3},
        {"digest": ""},
        {"noise": cost_row(Cost.of(LAPLACE))["noise"][:-17]},
        {"noise": cost_row(Cost.of(LAPLACE))["noise"].replace(b"\x01", b"\x02")},
        {"noise": b""},
    ],
)
def test_a_damaged_row_is_noticed(change):
    with pytest.raises(LedgerUnavailable):
        cost_of(row(Cost.of(LAPLACE), **change))


def test_kinds_differ_by_all_that_accounting_reads():
    kinds = [
        pure(0.25), pure(0.5), pure(0.25, delta=1e-9), pure(0.25, protects="client"),
        Cost.of(LAPLACE), Cost.of(LAPLACE).bare(),
        Cost.of(Release("discrete-laplace", LAPLACE.table, (1,), Guarantee(0.5))),
    ]  # fmt: skip
    assert len({cost.digest for cost in kinds}) == len(set(kinds)) == len(kinds)
