"""The nearest centroid is the same everywhere, and each record's is its own."""

from fractions import Fraction

import numpy as np
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Nearest, Reference, Table
from flwr_kld.errors import DomainError

TRIANGLE = Nearest([[0.0, 0.0], [1.0, 0.0], [0.0, 0.1]])


@given(
    st.lists(st.lists(st.floats(-8, 8), min_size=3, max_size=3), min_size=1, max_size=6),
    st.integers(0, 2**32),
    st.sampled_from([1e-30, 1.0, 1e30]),
)
def test_it_is_the_nearest_in_exact_arithmetic_up_to_a_step(vectors, seed, scale):
    centroids = np.random.default_rng(seed).normal(size=(5, 3)) * scale
    domain, points = Nearest(centroids), np.array(vectors) * scale
    step = Fraction(float(np.abs(centroids).max())) / 2**12  # a step is less than half of it
    for point, symbol in zip(points.tolist(), domain.encode(points).tolist(), strict=True):
        far = [
            sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(point, own, strict=True))
            for own in centroids.tolist()
        ]
        # the squared distance moves by less than 2 |x - c| times the rounding of both, and a bit
        slack = 8 * step * (sum(abs(Fraction(a)) for a in point) + 12 * step * 2**12)
        assert far[symbol] <= min(far) + slack


def test_forms_of_vectors_are_read_alike():
    rows = [[0.9, 0.2], [0.1, 0.4], [-3.0, 0.0]]
    expected = [1, 2, 0]
    ragged = np.empty(3, dtype=object)
    ragged[:] = [np.array(row) for row in rows]
    for form in (
        rows, np.array(rows), np.array(rows, np.float32), tuple(map(tuple, rows)), ragged,
        [str(row) for row in rows], pyarrow.array(rows), np.ma.array(rows),
    ):  # fmt: skip
        assert TRIANGLE.encode(form).tolist() == expected
        assert Table({"v": TRIANGLE}).encode({"v": form}).ravel().tolist() == expected


def test_whatever_is_no_vector_is_missing_and_changes_no_other():
    odd = [
        None, float("nan"), [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], [1.0, float("nan")], "x", "[1]",
        "[1, 2", '{"a": 1}', [1, float("inf")], [1, None], {}, b"ab", 7, [object(), 1], "[" * 9999,
        np.ma.array([1.0, 2.0], mask=[False, True]), [10**400, 1],
    ]  # fmt: skip
    for one in odd:
        assert TRIANGLE.encode([[0.9, 0.0], one, [0.0, 0.4]]).tolist() == [1, 3, 2]
    assert TRIANGLE.encode([[1e300, -1e300], [-1e308, 1e308]]).tolist() == [1, 2]
    masked = np.ma.array([[0.9, 0.0], [0.9, 0.0]], mask=[[False, False], [True, False]])
    assert TRIANGLE.encode(masked).tolist() == [1, 3]
    for nobody in ([], np.zeros((0, 2))):
        assert TRIANGLE.encode(nobody).shape == (0,)


def test_many_coordinates_are_added_without_rounding():
    """The same in any order of the coordinates, though sums of floats would differ."""
    rng = np.random.default_rng(0)
    centroids = rng.normal(size=(4, 4096))
    points = np.concatenate(
        [rng.normal(size=(50, 4096)) * 30, centroids[:1] / 2 + centroids[1:] / 2]
    )
    order = rng.permutation(4096)
    shuffled = Nearest(centroids[:, order]).encode(points[:, order])
    np.testing.assert_array_equal(Nearest(centroids).encode(points), shuffled)


@pytest.mark.parametrize(
    "centroids",
    [[], [[]], [[1.0, 2.0]], [1.0, 2.0], [[1.0], [1.0]], [[1.0], [1.0 + 1e-9]], [[1.0], [2, 3]],
     [[1.0], [float("nan")]], [["a"], ["b"]], [[0.0], [-0.0]], None],
)  # fmt: skip
def test_no_centroids(centroids):
    with pytest.raises(DomainError, match=r"centroids|records"):
        Nearest(centroids)


def test_a_column_of_vectors_has_a_reference_and_a_dictionary(tmp_path):
    table = Table({"v": TRIANGLE, "w": ["a", "b"]})
    table.to_toml(tmp_path / "table.toml")
    assert Table.from_toml(tmp_path / "table.toml") == table
    rows = {"v": np.array([[1.0, 0.0], [0.0, 0.0]]), "w": ["a", "b"]}
    law = Reference.from_frame(table, rows).columns["v"].probabilities
    assert law.tolist() == [0.5, 0.5, 0.0, 0.0]
    assert [TRIANGLE.name_of(i) for i in (2, 3)] == ["nearest to centroid 2", "missing"]
    with pytest.raises(DomainError, match="2 coordinates"):
        TRIANGLE.encode(np.zeros((3, 5)))
