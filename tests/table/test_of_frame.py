"""Tables made of public frames: what each column gets, and which are left out, and why."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld import Binned, Codes, Labels, Reference, Table, Times
from flwr_kld.common.errors import DomainError

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
    assert features.pop("text of numbers").edges == (0, 1, 2, 3, 4, 5, 6, 7)
    rare = features.pop("rare")
    assert (rare.buckets, rare.prefix, len(rare.names)) == (16, None, 10)
    assert features == {
        "children": Labels(["0", "1", "2", "3"]),
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
        "id": "its name says that it is an identifier",
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
    for columns, message in [(["x"], "no column 'x'"), (["odd"], r"no column.*\(odd: it holds")]:
        with pytest.raises(DomainError, match=message):
            Table.from_frame(PUBLIC, columns=columns)
    with pytest.raises(DomainError, match="none"):
        Table.from_frame([])


def test_a_column_that_is_named_is_taken_whatever_it_holds():
    names = ["id", "name", "note", "at", "year", "few"]
    public = {**PUBLIC, "year": [2023, 2024] * (ROWS // 2), "few": [None] * ROWS}
    table = Table.from_frame(public, columns=names)
    assert table.features["id"].prefix == 1
    assert table.features["name"] == Codes([], 16)
    assert len(table.features["note"].names) == 20
    assert table.features["year"] == Labels(["2023", "2024"])
    assert len(table.features["at: date"].by) > 10
    assert table.left_out == {}
    few = {"a": [7] * 5, "b": [None] * 5, "c": ["x" * 200] * 5}
    found = Table.from_frame(few, columns=["a", "b", "c"]).features
    assert found == {"a": Labels(["7"]), "b": Labels([]), "c": Labels(["x" * 200])}


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


@pytest.mark.parametrize("text", ["2024-01-01", "01.07.2015", "3,50 €", "7.0", "007", "1e3", "yes"])
def test_a_constant_is_the_label_that_it_is_written_as(text):
    law = Reference.from_frame({"a": [text, *[text] * ROWS, None]}).probabilities
    assert law[0] == pytest.approx(1, abs=0.02)


def test_a_constant_of_few_rows_or_of_long_text_is_left_out():
    table = Table.from_frame({"a": [0, 1] * 60, "b": ["x" * 200] * 120})
    assert list(table.left_out) == ["b"]
    with pytest.raises(DomainError, match="constant"):
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
        with pytest.raises(DomainError, match="finite"):
            Binned.quantiles(values)


def of(values, **options):
    """Domains, and reasons, of one column of public values, by their names without the column's."""
    try:
        table = Table.from_frame({"a": values, "z": ["x", "y"] * (len(values) // 2)}, **options)
    except DomainError as error:
        return str(error)
    found = {**table.features, **table.left_out}
    del found["z"]
    return {name.removeprefix("a").removeprefix(": "): own for name, own in found.items()}


def days(first, number, step=1, by="D"):
    order = np.random.default_rng(1).permutation(number)
    return (np.datetime64(first, by) + order * step).astype(str).tolist()


def test_dates_are_checked_as_date_weekday_and_hour():
    found = of(days("2024-01-01T00", 2000, 4, "h"))
    assert found == {"date": Times("month"), "weekday": Times("weekday"), "hour": Times("hour")}
    born = of(days("1950-01-01", 5000, 4), bins=10)
    assert len(born["date"].by) == 9
    assert born["weekday"] == Times("weekday")
    assert "dates without a time" in born["hour"]
    august = {"at": days("2024-08-01", 40)}
    found = Table.from_frame(august, columns=["at"], bins=10)
    assert len(found.features["at: date"].by) == 8  # 1 % are before the second day
    sundays = of(days("2024-01-07T10:30", 200, 7, "D"))
    assert "fall on one weekday, Sunday" in sundays["weekday"]
    assert (
        "are of one hour of the day, 10:00" in of(days("2024-01-07T10:30", 200, 1440, "m"))["hour"]
    )


@pytest.mark.parametrize("span", [2, 7, 13, 14, 30])
def test_weekdays_of_less_than_two_weeks_are_no_law(span):
    dates = days("2026-03-01T00", 24 * span, by="h")
    assert (of(dates)["weekday"] == Times("weekday")) is (span >= 14)
    wanted = Table.from_frame({"at": dates}, columns=["at"])  # whatever it holds
    assert wanted.features["at: weekday"] == Times("weekday")


def test_the_dates_of_a_log_are_left_out_and_their_weekdays_are_checked():
    log = (np.datetime64("2014-01-01") + np.arange(2000) // 3 * 4).astype(str).tolist()
    for dates in (log, log[::-1], days("2024-08-01", 40), days("2024-02-01T06", 2000, 3, "h")):
        assert "later rows have later dates" in of(dates)["date"]
        assert of(dates)["weekday"] == Times("weekday")


def test_calendar_columns_and_counters_are_left_out_with_their_reason():
    rng = np.random.default_rng(0)
    rows = {
        "year": rng.integers(2012, 2016, 300), "WEEK": rng.integers(1, 54, 300).astype(str),
        "Year": [2015] * 300, "week_number": rng.integers(1, 54, 300).astype(float),
        "serial": np.arange(300), "odometer": np.cumsum(rng.random(300)),
        "weekly income": rng.integers(1, 54, 300), "year built": rng.integers(1950, 2000, 300),
        "day": rng.integers(1, 5000, 300), "sorted age": np.sort(rng.integers(18, 90, 300)),
    }  # fmt: skip
    left_out = Table.from_frame(rows).left_out
    assert {name for name, why in left_out.items() if "calendar" in why} == {
        "year", "WEEK", "Year", "week_number",
    }  # fmt: skip
    assert {name for name, why in left_out.items() if "counter" in why} == {"serial", "odometer"}
    assert len(left_out) == 6


@pytest.mark.parametrize(
    "pair",
    ["yes no", "Y N", "ja nein", "TRUE FALSE", "t f", "wahr falsch", "oui non", "Sí no", "on off"],
)
def test_truth_values_are_labels_in_any_spelling(pair):
    true, false = pair.split()
    values = [true, f" {true.upper()}", false, f"{false.title()} ", None] * 40
    assert of(values) == {"": Labels(["False", "True"])}
    names = [
        Labels(["False", "True"]).name_of(i) for i in Labels(["False", "True"]).encode(values[:5])
    ]
    assert names == ["True", "True", "False", "False", "missing"]


def test_other_pairs_of_texts_are_not_truth_values():
    for values in (["m", "f"], ["n", "t"], ["yes", "maybe", "no"], ["no", "nein"], ["N", "S"]):
        assert of(values * 40) == {"": Labels(sorted(set(values)))}


def test_codes_are_named_where_they_are_frequent_and_else_grouped():
    rng = np.random.default_rng(0)
    icd = of([f"I{a % 12 + 10}.{b}" for a, b in rng.integers(0, 100, (3000, 2)).tolist()])[""]
    assert (icd.prefix, icd.buckets, set(icd.names)) == (3, 0, {f"I{i}" for i in range(10, 22)})
    zips = of([f"{17 * i:05}" for i in rng.integers(50, 5290, 3000).tolist()])[""]
    assert (zips.prefix, set(zips.names)) == (1, set("012345678"))
    airports = rng.permutation([a + b + "X" for a in "ABCDEFGHIJKLM" for b in "ABCDEFGHIJKLM"])
    mixed = of(rng.choice(airports, 4000, p=rng.dirichlet(np.full(169, 0.3))).tolist())[""]
    assert (mixed.prefix, mixed.buckets) == (None, 16)
    assert 5 < len(mixed.names) <= 20
    few = of(["a"] * 500 + [f"b{i}" for i in range(30)])[""]
    assert isinstance(few, Labels)  # and 6 % are 'other'


@pytest.mark.parametrize("kind", ["typed", "text", "listed"])
def test_a_number_that_stands_for_nothing_is_recognised(kind):
    rng = np.random.default_rng(0)

    def but(odd, values):
        return np.where(rng.random(400) < 0.1, odd, values)

    rows = {
        "income": but(-999, rng.lognormal(3, 1, 400).round(1)),
        "age": but(999, rng.integers(18, 90, 400)),
        "warmth": but(-99, rng.normal(0, 10, 400).round(1)),
        "answer": but(99, rng.integers(1, 6, 400)),
        "depth": rng.normal(0, 100, 400).round(), "plain": rng.integers(0, 100, 400),
    }  # fmt: skip
    as_text = {name: column.astype(str) for name, column in rows.items()}
    table = Table.from_frame(as_text if kind == "text" else rows)
    odd = {name: [float(text) for text in held] for name, held in table.dialect.sentinels.items()}
    assert odd == {"income": [-999], "age": [999], "warmth": [-99], "answer": [99]}
    nodes = {"typed": rows, "text": as_text, "listed": {n: list(c) for n, c in rows.items()}}[kind]
    reference = Reference.from_frame(table, nodes)
    missing = {n: c.unlisted.get("missing", 0) for n, c in reference.columns.items()}
    assert [missing[name] > 0.05 for name in rows] == [True] * 4 + [False] * 2
    for others in (rows, as_text):
        same = Reference.from_frame(table, others)
        np.testing.assert_array_equal(same.probabilities, reference.probabilities)


def test_public_numbers_make_one_table_in_whatever_type_they_come():
    """Lists and databases' decimals, too: what stands for nothing is recognised in all."""
    rng = np.random.default_rng(0)
    income = np.where(rng.random(400) < 0.1, -999, rng.integers(1, 90, 400))
    made = [
        Table.from_frame({"income": held})
        for held in (income, income.tolist(), list(map(Decimal, income.tolist())))
    ]
    assert made[0].dialect.sentinels == {"income": ("-999",)}
    assert made[1:] == made[:1] * 2


@pytest.mark.parametrize("odd", [1.7e308, math.inf])
def test_numbers_at_the_ends_of_float64_need_no_warning(odd):
    with np.errstate(all="raise"):
        Table.from_frame({"x": [odd, -odd, odd, 1.0, 2.0] * 40})


@pytest.mark.parametrize("odd", ["nan", "NaN"])
def test_a_spelt_nan_among_numbers_is_no_value(tmp_path, odd):
    numbers = [*(str(place**2 % 61 / 4) for place in range(200)), *[odd] * 40]
    for name, texts in (("odd", numbers), ("plain", [t if t != odd else "" for t in numbers])):
        lines = (f"{text},{place**2 % 59 / 4}" for place, text in enumerate(texts))
        (tmp_path / name).with_suffix(".csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    found, wanted = (
        Reference.from_csv(tmp_path / f"{name}.csv").domain.columns["x"]
        for name in ("odd", "plain")
    )
    assert found == wanted
