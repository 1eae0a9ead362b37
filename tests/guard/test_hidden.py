"""Checks that hide other neighbours than the operator protects: allowed or not, and their price."""

import math
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from guard.files import guard_file, protecting, question
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.errors import QueryRefused
from flwr_kld.guard import verify
from flwr_kld.guard.guard import Guard
from flwr_kld.guard.limits import GuardFileError
from flwr_kld.messages.terms import NoiseShares

RECORDS, CLIENTS = "record, replace-one", "client, replace-one"
RECORDS_THERE, CLIENTS_THERE = "record, add-remove", "client, add-remove"
PRICES = {
    RECORDS: {RECORDS: 1, RECORDS_THERE: 2, CLIENTS: 1, CLIENTS_THERE: 2},
    RECORDS_THERE: {RECORDS_THERE: 1, CLIENTS_THERE: 2},
    CLIENTS: {CLIENTS: 1, CLIENTS_THERE: 2},
    CLIENTS_THERE: {CLIENTS_THERE: 1},
}
"""Steps of each check's neighbours, by whom the file protects; others are refused."""
WIDE = ("max_epsilon = 1.0", "max_epsilon = 3.0")


def guard_of(folder, *changes):
    return Guard.from_file(guard_file(folder, *changes), clock=lambda: 5000.0)


def asked(check, hidden, **changes):
    unit, adjacency = hidden.split(", ")
    return question(check, unit=unit, adjacency=adjacency, **changes)


@pytest.mark.parametrize("protected", PRICES)
@pytest.mark.parametrize("hidden", PRICES)
def test_a_check_costs_by_the_steps_to_whom_the_file_protects(tmp_path, protected, hidden):
    guard = guard_of(tmp_path, WIDE, protecting(protected))
    steps = PRICES[protected].get(hidden)
    if steps is None:
        with pytest.raises(QueryRefused, match=f'a check that hides "{hidden}"; this client'):
            guard.admit(asked("1", hidden), "0")
        assert not (tmp_path / "receipts.db").exists()
        return
    for i in range(6 // steps):
        guard.admit(asked(f"{i}", hidden, epsilon=0.5), "0")
    with pytest.raises(QueryRefused, match="more than this client has left: 0 of 3"):
        guard.admit(asked("more", hidden, epsilon=1e-9), "0")


def test_the_limit_of_one_check_is_of_whom_the_file_protects(tmp_path):
    guard = guard_of(tmp_path)
    with pytest.raises(QueryRefused, match=r"epsilon 1\.2 .*counted as .* for a check is 1$"):
        guard.admit(asked("1", RECORDS_THERE, epsilon=0.6), "0")
    with pytest.raises(QueryRefused, match=r"delta 2\.6.*e-06 .*limit for a check is 1e-06$"):
        guard.admit(asked("1", RECORDS_THERE, epsilon=0.5, delta=1e-6), "0")
    guard.admit(asked("1", RECORDS_THERE, epsilon=0.5, delta=3e-7), "0")


def test_two_steps_cost_delta_by_a_factor(tmp_path):
    """At (ε, δ) each, (2ε, (1 + e**ε) δ): 3.7 times at 1 nat."""
    guard = guard_of(tmp_path, WIDE, ("max_delta = 1e-5", "max_delta = 1e-6"))
    guard.admit(asked("1", RECORDS_THERE, delta=2.6e-7), "0")
    assert 2 * 2.6 + 2 * 2.3 < 10 < (1 + math.e) * 2.6 + 2 * 2.3
    with pytest.raises(QueryRefused, match=r"^delta 4\.8.*e-07 is more than this client has left"):
        guard.admit(asked("2", RECORDS_THERE, epsilon=0.1, delta=2.3e-7), "0")
    guard.admit(asked("2", RECORDS, epsilon=0.1, delta=3e-8), "0")


@pytest.mark.parametrize("hidden", [RECORDS, RECORDS_THERE])
@pytest.mark.parametrize("epsilon", [1e6, 1e300])
def test_a_promise_of_nothing_is_beyond_every_limit(tmp_path, hidden, epsilon):
    with pytest.raises(QueryRefused, match=r"epsilon .*this client's limit for a check is 1$"):
        guard_of(tmp_path).admit(asked("1", hidden, epsilon=epsilon, delta=0.9), "0")


KINDS = st.sampled_from([RECORDS, RECORDS_THERE, CLIENTS, CLIENTS_THERE])


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(KINDS, st.integers(1, 8)), max_size=14))
def test_mixed_checks_never_cost_a_record_more_than_the_period(checks):
    """Nothing that fits is refused, either."""
    charged = Fraction(0)
    with tempfile.TemporaryDirectory() as folder:
        guard = guard_of(Path(folder), WIDE)
        for i, (hidden, eighths) in enumerate(checks):
            cost = Fraction(PRICES[RECORDS][hidden] * eighths, 8)
            try:
                guard.admit(asked(f"{i}", hidden, epsilon=eighths / 8), "0")
            except QueryRefused:
                assert charged + cost > 3
            else:
                charged += cost
    assert charged <= 3


def test_only_what_is_listed_is_answered(tmp_path):
    allow = ('references = "any"', f'references = "any"\nhides = ["{RECORDS}", "{CLIENTS}"]')
    guard = guard_of(tmp_path, allow)
    guard.admit(asked("1", RECORDS, epsilon=0.5), "0")
    guard.admit(asked("2", CLIENTS, epsilon=0.5), "0")
    for hidden in (RECORDS_THERE, CLIENTS_THERE):
        with pytest.raises(QueryRefused, match=f'a check that hides "{hidden}"; this client'):
            guard.admit(asked("3", hidden, epsilon=0.1), "0")


@pytest.mark.parametrize("protected", PRICES)
@pytest.mark.parametrize("hidden", PRICES)
def test_a_file_that_allows_what_does_not_protect_is_refused(tmp_path, protected, hidden):
    allow = ('references = "any"', f'references = "any"\nhides = ["{hidden}"]')
    path = guard_file(tmp_path, allow, protecting(protected))
    if hidden in PRICES[protected]:
        Guard.from_file(path)
        return
    with pytest.raises(GuardFileError, match=f'allow.hides has "{hidden}".* "{protected}"'):
        Guard.from_file(path)


def test_a_file_that_protects_more_counts_what_was_answered_before_or_refuses(tmp_path):
    guard_of(tmp_path, WIDE).admit(asked("1", CLIENTS_THERE, epsilon=0.5), "0")
    stricter = guard_of(tmp_path, WIDE, protecting(CLIENTS_THERE))
    stricter.admit(asked("2", CLIENTS_THERE, epsilon=2.5), "0")  # 0.5 counts once now
    with pytest.raises(QueryRefused, match="left: 0 of 3"):
        stricter.admit(asked("3", CLIENTS_THERE, epsilon=0.1), "0")
    guard_of(tmp_path, WIDE).admit(asked("other", RECORDS, epsilon=0.1), "1")
    with pytest.raises(QueryRefused, match=f'hides "{RECORDS}", and its limits now protect'):
        stricter.admit(asked("4", CLIENTS_THERE, epsilon=0.1), "1")


@pytest.mark.parametrize("hidden", PRICES)
def test_a_receipt_names_all_that_shaped_the_answer(tmp_path, hidden):
    guard = guard_of(tmp_path, protecting(hidden))
    unit, adjacency = hidden.split(", ")
    receipt = guard.admit(asked("1", hidden, clip=2**31 - 1, model="a" * 64), "0")
    assert (receipt.unit, receipt.adjacency) == (unit, adjacency)
    assert (receipt.clip, receipt.model) == (2**31 - 1, "a" * 64)
    assert guard.admit(asked("2", hidden), "0").model == "none"
    assert [r.clip for r in verify(tmp_path / "receipts.db").receipts] == [2**31 - 1, 0]


def test_the_receipt_names_the_clip_of_the_clients_own_noise(tmp_path):
    noise = NoiseShares(n_min=10, mechanism="discrete-laplace", bound=3)
    guard = guard_of(tmp_path, protecting(CLIENTS_THERE))
    receipt = guard.admit(asked("1", CLIENTS_THERE, delta=1e-6, noise=noise), "0")
    assert receipt.clip == 3
