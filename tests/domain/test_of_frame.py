"""Tables made of public frames: what each column gets, and which are left out, and why."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Binned, Labels, Reference, Table, Times
from flwr_kld.errors import DomainError

RNG = np.random.default_rng(0)
ROWS = 500
MONDAY = dt.datetime(2024, 1, 1)
PUBLIC = {
    "income": RNG.normal(size=ROWS),
    "children": RNG.integers(0, 4, ROWS),
    "job": RNG.choice(["nurse", "clerk", None], ROWS, p=[0.5, 0.3, 0.2]).tolist(),
    "member": RNG.random(ROWS) < 0.5,
    "at": [MONDAY + dt.timedelta(hours=i) for i in range(ROWS)],
    "day": [(MONDAY + dt.timedelta(days=i)).date() for i in range(ROWS)],
    "text of numbers": [str(i % 7) for i in range(ROWS)],
    "zip": [f"{i % 7:05}" for i in range(ROWS)],
    "rare": [f"city {i**2 % 211}" for i in range(ROWS)],
    "id": RNG.permutation(10**6)[:ROWS],
    "name": [f"name {i}" for i in range(ROWS)],
    "note": ["it was a long day, and it rained " + "." * (i % 30) for i in range(ROWS)],
    "constant": ["x"] * ROWS,
    "nothing": [None] * ROWS,
    "odd": [[1], {}] * (ROWS // 2),
}


@pytest.mark.parametrize(
    "frame", [PUBLIC, pl.DataFrame(PUBLIC, strict=False)], ids=["mapping", "polars"]
)
def test_each_column_gets_a_domain_or_a_reason(frame):
    if isinstance(frame, pl.DataFrame):
        frame = frame.drop("odd")
    table = Table.from_frame(frame, bins=10, labels=10)
    features = dict(table.features)
    assert len(features.pop("income").edges) == 9
    numbers = {name: features.pop(name).edges for name in ("children", "text of numbers")}
    assert numbers == {"children": (1, 2, 3), "text of numbers": (1, 2, 3, 4, 5, 6)}
    rare = features.pop("rare")
    assert (rare.buckets, rare.prefix, len(rare.names)) == (16, None, 10)
    assert features == {
        "job": Labels(["nurse", "clerk"]),
        "member": Labels(["False", "True"]),
        "at: weekday": Times("weekday"),
        "at: hour": Times("hour"),
        "day: weekday": Times("weekday"),
        "zip": Labels([f"{i:05}" for i in range(7)]),
        "constant": Labels(["x"]),
        "nothing": Labels([]),
    }
    reasons = {
        "at: date": "go on from row to row",
        "day: date": "go on from row to row",
        "day: hour": "dates without a time",
        "id": "500 different whole numbers in 500 rows",
        "name": "500 different values in 500 rows",
        "note": "long texts, 9 words on average",
        "odd": "neither numbers nor texts",
    }
    for name, reason in table.left_out.items():
        assert reasons[name] in reason
    assert table.left_out.keys() == reasons.keys() - (set() if frame is PUBLIC else {"odd"})
    reference = Reference.from_frame(table, frame)
    bins = [0.01, *[0.98 / 8] * 8, 0.01]
    assert reference.columns["income"].probabilities[:10] == pytest.approx(bins, abs=0.005)
    assert reference.columns["job"].unlisted["missing"] == pytest.approx(0.2, abs=0.05)
    same = Table(table.features, sources=table.sources)
    assert reference.fingerprint == Reference.from_frame(same, frame).fingerprint


def test_columns_and_interactions_are_those_that_are_named():
    pair = ("job", "children")
    table = Table.from_frame(PUBLIC, columns=["children", "job"], interactions=[pair])
    assert list(table.columns) == ["children", "job", "job × children"]
    assert table.left_out == {}
    for columns, message in [(["x"], "no column 'x'"), (["id"], r"no column.*\(id: 500 different")]:
        with pytest.raises(DomainError, match=message):
            Table.from_frame(PUBLIC, columns=columns)
    with pytest.raises(DomainError, match="it has none"):
        Table.from_frame([])


@pytest.mark.parametrize(
    ("before", "after", "moved_to"),
    [
        ([None], ["5"], "other"), (["x"], ["y"], "other"), (["x"], [None], "missing"),
        ([3.5], ["3.5"], "3.5"), ([3.5], [4], "other"), ([7], [8], "other"), ([True], [0], "False"),
        (["0", "1"], [True], "1"), ([0, 1], ["2"], "other"), (["true", "FALSE"], ["True"], "True"),
    ],
)  # fmt: skip
def test_a_constant_that_varies_and_a_field_that_is_filled_show(before, after, moved_to):
    table = Table.from_frame({"a": before * 100})
    (symbol,) = table.encode({"a": after})[0]
    assert table.name_of(symbol) == f"a={moved_to}"


def test_a_constant_of_few_rows_or_of_long_text_is_left_out():
    table = Table.from_frame({"a": [0, 1] * 60, "b": ["x" * 200] * 120})
    assert list(table.left_out) == ["b"]
    with pytest.raises(DomainError, match="constant, in few rows"):
        Table.from_frame({"a": [7] * 5})


@given(
    st.lists(st.integers(-3, 3) | st.floats(-1e300, 1e300), min_size=1, max_size=60),
    st.integers(2, 8),
)
def test_quantile_bins_are_at_most_so_many_and_none_is_empty(values, bins):
    domain = Binned.quantiles([*values, None, "x", np.inf], bins)
    counts = np.bincount(domain.encode(values), minlength=domain.size)[:-1]
    assert len(counts) <= bins
    different = len(set(map(float, values)))
    assert np.count_nonzero(counts) == (len(counts) if different > 1 else 1)
    if different <= bins:
        assert len(counts) == max(different, 2)


def test_uniform_bins():
    assert Binned.uniform(0, 1, 4) == Binned([0.25, 0.5, 0.75])
    for low, high, bins in [(0, 0, 4), (1, 0, 4), (0, 1, 1), (0, np.inf, 4), ("a", 1, 2)]:
        with pytest.raises(ValueError, match=r"bins|low|high"):
            Binned.uniform(low, high, bins)
    for values in ([], ["x"], [np.nan]):
        with pytest.raises(DomainError, match="at least one finite number"):
            Binned.quantiles(values)
