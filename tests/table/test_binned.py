"""Binned: half-open bins, open ends, and a symbol for what is no number."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.common.errors import DomainError
from flwr_kld.table.base import domain_from_spec
from flwr_kld.table.binned import Binned, quantile_levels, quantiles_of
from flwr_kld.table.labels import Labels


def test_bins_hold_their_left_edge_and_the_outer_ones_are_open() -> None:
    domain = Binned([0, 2.5, 10])
    below, inside, above = np.nextafter(0, -1), np.nextafter(2.5, 0), 1e300
    records = [-7, below, 0, inside, 2.5, 9, 10, above]
    assert domain.encode(records).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert domain.size == 5
    names = [domain.name_of(i) for i in range(5)]
    assert names == ["< 0", "[0, 2.5)", "[2.5, 10)", ">= 10", "missing"]


@given(
    st.sets(st.floats(-1e6, 1e6), min_size=1, max_size=9),
    st.lists(st.floats(allow_nan=False, allow_infinity=False)),
)
def test_symbol_counts_the_edges_at_or_below(edges: set[float], records: list[float]) -> None:
    symbols = Binned(sorted(edges)).encode(np.array(records, dtype=float))
    assert symbols.dtype == np.int64
    assert symbols.tolist() == [sum(edge <= x for edge in edges) for x in records]


def test_what_is_no_finite_number_is_its_label_or_missing() -> None:
    domain = Binned([0, 1], labels=["<0.5", "inf"])
    records = [0.5, "<0.5", "nil", np.inf, "Infinity", b"inf", 10**400, -np.inf, None, "7"]
    found = [domain.name_of(symbol) for symbol in domain.encode(records)]
    assert found == ["[0, 1)", "<0.5", "missing", *["inf"] * 4, *["missing"] * 2, ">= 1"]
    assert domain.encode(np.array([np.inf, np.nan, 0.0])).tolist() == [4, 5, 1]
    assert set(Binned([0]).encode([np.inf, "inf", -(10**400)]).tolist()) == {2}
    assert domain_from_spec(domain.spec()) == domain
    for labels in ("x", [3], ["7"], ["true"], ["a", "a"], {"a"}):
        with pytest.raises(ValueError, match="labels"):
            Binned([0], labels=labels)


def test_a_duration_is_its_seconds() -> None:
    domain = Binned([60])
    spans = [dt.timedelta(seconds=7), np.timedelta64(2, "m"), np.timedelta64("NaT", "s")]
    assert domain.encode(spans).tolist() == [0, 1, 2]
    assert Labels(["7"]).encode(spans).tolist() == [0, 1, 2]
    for unit in ("D", "s", "ms", "ns"):
        column = np.array([0, 86_400], "m8[s]").astype(f"m8[{unit}]")
        assert Binned([86_400]).encode(column).tolist() == [0, 1]


def test_zero_has_one_sign() -> None:
    assert Binned([-0.0]) == Binned([0.0])
    assert Binned([-0.0]).name_of(0) == "< 0"


@pytest.mark.parametrize(
    "edges",
    [[], [1, 1], [0, float("inf")], [0, 2e75], [[1, 2]], 3.0],
)
def test_bad_edges_are_refused(edges: list[float]) -> None:
    with pytest.raises(DomainError, match="edge"):
        Binned(edges)


@pytest.mark.parametrize(
    ("low", "high", "inside", "outside"),
    [
        (None, None, [-(2.0**40), -3.0, 0.0, 1e-6, 7e11], []),
        (0, None, [0.0, 5.0], [-1e-9]),
        (18, 100.5, [18.0, 32.0, 100.0], [17.9, 100.5]),
        (None, -4, [-1000.0], [-4.0]),
    ],
)
def test_powers_of_two_cover_what_is_known_of_a_range(low, high, inside, outside):
    domain = Binned.powers(low, high)
    last = len(domain.edges)
    assert all(0 < symbol < last for symbol in domain.encode(inside))
    assert all(symbol in (0, last) for symbol in domain.encode(outside))
    inner = [edge for edge in domain.edges if edge not in (0, low, high)]
    assert all(np.frexp(edge)[0] in (0.5, -0.5) for edge in inner)


@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (np.nan, 1), (0, np.inf), ("a", None)])
def test_a_range_that_is_none_is_refused(ends):
    with pytest.raises((ValueError, TypeError)):
        Binned.powers(*ends)


def test_means_are_exact_where_sums_of_floats_are_not():
    values = np.array([-1e16, 1.0, 1e16])
    assert Binned.cut(values, np.array([2e16])).means == (0.333333, 2e16)
    assert values.mean() != pytest.approx(1 / 3)


@pytest.mark.parametrize("values", [1, 7, 100, 1_003])
def test_cuts_of_ordered_values_are_their_quantiles(values):
    ordered = np.sort(np.random.default_rng(values).normal(size=values))
    for bins in (2, 4, 5, 20):
        usual = np.quantile(ordered, quantile_levels(bins), method="inverted_cdf")
        np.testing.assert_array_equal(quantiles_of(ordered, bins), usual)
