"""Numbers counted at grid points within their bins: the same bins, and the same mean."""

import math

import numpy as np
import pytest

from flwr_kld import Binned, Dialect, Labels, Reference, Table
from flwr_kld.table.frame import TextFile
from flwr_kld.table.rounded_table import own_domain, rounded

AGES = Binned([30, 45, 60, 75], labels=["<18"])
ODD = [None, math.nan, math.inf, -math.inf, "<18", "x", "54.5", True, 10**400, 1e308, -1e308, b"7"]
ENDS = [29.999999999999996, 30, 44.99999999999999, 45, 59.99999999999999, 60, 74.9, 75, -0.0, 1e75]


def test_each_value_is_in_a_cell_of_its_own_bin():
    domain = rounded(AGES)
    for value in [*ODD, *ENDS]:
        for _ in range(3):
            (cell,) = domain.encode([value])
            assert domain.bin_of[cell] == AGES.encode([value])[0]
            assert domain.name_of(cell) == AGES.name_of(AGES.encode([value])[0])
    assert domain.holds(domain.encode([*ODD, *ENDS]))
    assert len(domain.encode([])) == 0


@pytest.mark.parametrize("edges", [[0, 1e-300, 1e75], [-1e75, 1e75], [1.0, math.nextafter(1, 2)]])
def test_bins_of_any_width_have_grid_points_within(edges):
    domain = rounded(Binned(edges))
    cells = domain.encode(np.random.default_rng(0).uniform(edges[0], edges[-1], 1000))
    assert domain.holds(cells)
    points = domain.points[cells]
    assert (points >= edges[0]).all()
    assert (points <= edges[-1]).all()
    assert (np.diff(domain.points) >= 0).all()


@pytest.mark.rate(1e-5)
def test_the_mean_of_grid_points_is_that_of_the_values():
    domain = rounded(AGES)
    for value in (30.1, 38.0, 45 + 15 / 14, 74.99):
        points = domain.points[domain.encode(np.full(20_000, value))]
        step = 15 / domain.intervals
        assert set(np.round((points - 30) / step, 6) % 1) == {0}
        assert np.ptp(points) == pytest.approx(step)
        assert points.mean() == pytest.approx(value, abs=4.5 * step / 2 / math.sqrt(20_000))


def test_what_lies_at_a_grid_point_stays_there():
    whole = rounded(Binned([0, 1, 2, 3]))
    values = np.array([0.0, 1.0, 2.0] * 50)
    assert (whole.points[whole.encode(values)] == values).all()


def test_equal_texts_of_a_file_have_coins_of_their_own(tmp_path):
    """A text is read once, however many records have it."""
    for decimal in (".", ","):
        table = rounded(Table({"age": AGES}, dialect=Dialect(";", decimal=decimal)))
        (tmp_path / "a.csv").write_text("age;x\n" + f"47{decimal}1;0\n" * 200)
        assert len(np.unique(table.encode(TextFile(tmp_path / "a.csv")))) == 2


def test_pairs_and_scores_are_counted_as_they_are():
    rows = {"age": [20.0, 47.1, 70.2, None] * 30, "job": ["a", "b", "a", "c"] * 30}
    plain = Table({"age": AGES, "job": ["a", "b"]}, by="job")
    table = Reference.from_frame(plain, rows, score="all", allow_unlisted=True).domain
    found, own = rounded(table).encode(rows), table.encode(rows)
    ends, own_ends = ([part.start for part in of.parts] for of in (rounded(table), table))
    assert (found[:, 1:] - ends[1:] == own[:, 1:] - own_ends[1:]).all()
    assert rounded(table).holds(found)
    assert own_domain(rounded(table)) == table


@pytest.mark.parametrize(
    "domain",
    [Binned([0.5]), Binned(list(range(101))), Labels(["a"]), Table({"a": ["x"], "b": Binned([1])})],
)
def test_what_has_no_inner_bins_or_very_many_stays_as_it_is(domain):
    assert rounded(domain) is domain


def test_both_sides_make_the_same_cells_and_other_bins_other_ones():
    again = Binned([30, 45, 60, 75], labels=["<18"])
    assert rounded(again).fingerprint == rounded(AGES).fingerprint
    assert rounded(Binned([30, 45, 60, 76])).fingerprint != rounded(AGES).fingerprint
    assert rounded(AGES).fingerprint != AGES.fingerprint
