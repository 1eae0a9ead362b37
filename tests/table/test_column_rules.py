"""What a column is taken for: what a person would say who sees its name and its values."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from table.test_dialect import of_node

from flwr_kld import Binned, Reference, Table, Times
from flwr_kld.simulations.studies.columns import ODD, shape
from flwr_kld.table.codes import Codes

RNG = np.random.default_rng(7)
ROWS = 2000
TIMES = np.datetime64("2024-10-01") + RNG.integers(0, 350 * 86_400, ROWS).astype("m8[s]")
CLOCK = [dt.time(int(a), int(b)) for a, b in RNG.integers(0, [24, 60], (ROWS, 2)).tolist()]


def found(values, name="x"):
    """The features of one column, by name, and the reasons for those left out."""
    table = Table.from_frame({name: values, "other": ["a", "b"] * (len(values) // 2)})
    own = {**table.features, **table.left_out}
    del own["other"]
    return own


def only(values, name="x"):
    (own,) = found(values, name).values()
    return own


@pytest.mark.parametrize(
    "odd", ["nil", "—", "#DIV/0!", "<0.5", "\x1a", "inf", "TRUE", "007", "x y"]
)
@pytest.mark.parametrize("write", [str, "{:.2f}".format])
def test_one_odd_text_among_numbers_leaves_them_numbers(odd, write):
    texts = [write(value) for value in RNG.lognormal(2, 1, ROWS).round(2) * 100]
    usual = only(texts)
    assert isinstance(only([odd, *texts[1:]]), Binned)
    assert len(only([odd, *texts[1:]]).edges) == len(usual.edges)
    assert only([odd, *texts[1:]]).labels == ()


def test_a_frequent_text_beside_numbers_is_a_label_of_its_own():
    measured = RNG.gamma(2, 0.5, ROWS)
    domain = only(["<0.5" if value < 0.5 else f"{value:.2f}" for value in measured])
    assert domain.labels == ("<0.5",)
    rows = {"x": ["<0.5", "0.7", "nil", "inf"]}
    assert [domain.name_of(s) for s in domain.encode(rows["x"])][::2] == ["<0.5", "missing"]
    infinite = np.where(RNG.random(ROWS) < 0.1, np.inf, measured)
    assert only(infinite).labels == ("inf",)
    table = Table.from_frame({"x": [str(value) for value in infinite]})
    assert table.features["x"].labels == ("inf",)
    assert table.encode({"x": ["Infinity", "-inf"]})[:, 0].tolist() == [
        table.size - 2, table.size - 1,
    ]  # fmt: skip


@pytest.mark.parametrize("make", [np.array, list, lambda v: pd.Series(v).astype("category")])
@pytest.mark.parametrize("spell", [int, str, float])
def test_a_number_between_or_beyond_few_numbers_is_a_cell_without_mass(make, spell):
    codes = RNG.choice([1, 2, 3, 10, 20], ROWS)
    held = make([spell(code) for code in codes.tolist()])
    reference = Reference.from_frame({"x": held})
    domain = reference.domain.features["x"]
    for unseen in (0, 4, 15, 21, 99):
        assert reference.probabilities[domain.encode([spell(unseen)])[0]] == 0
    assert np.count_nonzero(reference.probabilities) == 5
    doses = only(RNG.choice([0.5, 1.0, 2.0], ROWS))
    assert doses.edges == (0.5, 0.6, 1.0, 1.1, 2.0, 2.1)
    assert doses.means[1::2] == (0.5, 1.0, 2.0)


@pytest.mark.parametrize(
    ("constant", "now"),
    [
        (Decimal("1.50"), Decimal("2.00")), (np.int64(7), np.int64(9)), (1.5, 2), (True, False),
        (pd.Timestamp("2024-01-01"), pd.Timestamp("2025-01-01")), ("1970-01-01", "2025-06-01"),
        (dt.date(2024, 1, 1), dt.date(2023, 12, 31)), (dt.timedelta(1), dt.timedelta(2)),
    ],
)  # fmt: skip
def test_a_constant_of_any_type_shows_when_it_begins_to_vary(constant, now):
    reference = Reference.from_frame({"x": pd.Series([constant] * 500, dtype=object)})
    (symbol,) = reference.domain.encode({"x": [constant]})[:, 0]
    assert reference.probabilities[symbol] == 1
    (symbol,) = reference.domain.encode({"x": [now]})[:, 0]
    assert reference.probabilities[symbol] == 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("phone", RNG.integers(171 * 10**7, 179 * 10**7, ROWS)),
        ("unitid", RNG.permutation(500_000)[:ROWS]),
        ("orderNumber", RNG.permutation(10**5)[:ROWS] * 7919),
        ("x", [int(i) for i in RNG.integers(15 * 10**17, 17 * 10**17, ROWS)]),  # snowflakes
        ("x", [str(i) for i in RNG.integers(15 * 10**17, 17 * 10**17, ROWS)]),
        ("x", [f"0171{i}" for i in RNG.integers(10**6, 10**7, ROWS)]),
        ("x", RNG.permutation(ROWS) + 10**9),
    ],
)
def test_identifiers_are_left_out_and_are_no_dates(name, values):
    assert "identifier" in only(values, name)


@pytest.mark.parametrize(
    "name",
    ["zip", "FIPS", "patient_id", "unitId", "Postal Code", "countyid", "statefips", "order_nr"],
)
def test_repeated_identifiers_and_postcodes_are_codes(name):
    few, many = RNG.integers(20_000, 20_015, ROWS), RNG.integers(20_000, 20_300, ROWS)
    assert set(only(few, name).names) == set(map(str, few.tolist()))
    subjects = name.lower().endswith("id")  # of whom each has fewer than ten rows
    assert isinstance(only(many, name), str if subjects else Codes)


@pytest.mark.parametrize(
    ("numbers", "names"),
    [
        ([1, 2], ["1", "2"]),
        ([3, 4], ["3", "4"]),
        ([0, 1, 2, 3, 4], ["0", "1", "2", "3", "4"]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], ["1", "2", "3", "4", "5", "6", "7"]),
        ([*["1", "2", "3"] * 10, "n.k."], ["1", "2", "3", "n.k."]),
    ],
)
def test_a_few_numbers_in_a_row_are_levels_in_their_order(numbers, names):
    values = [numbers[i] for i in RNG.integers(0, len(numbers), ROWS)]
    assert only(values).names == tuple(names)


@pytest.mark.parametrize("numbers", [range(10), [0, 2, 4], range(1, 20), [0.5, 1.5], range(6)])
def test_other_numbers_are_cut(numbers):
    assert isinstance(only(RNG.choice(list(numbers), ROWS)), Binned)


def test_texts_most_of_which_occur_once_are_left_out():
    names = [f"person {i}" for i in RNG.integers(0, ROWS, ROWS)]
    assert "identifier" in only(names)
    assert not isinstance(only(names[: ROWS // 4] * 4), str)


@pytest.mark.parametrize("name", ["paid", "amountPaid", "humid", "covid", "num_rooms", "mono"])
def test_words_that_end_as_identifiers_do_are_amounts(name):
    assert isinstance(only(RNG.integers(20_000, 20_300, ROWS), name), Binned)


@pytest.mark.parametrize("name", ["phone_service", "id", "x"])
def test_zeros_and_ones_are_so_whatever_their_name_and_zeros_alone_are_numbers(name):
    assert only(RNG.integers(0, 2, ROWS), name).names == ("0", "1")
    rates = np.where(RNG.random(ROWS) < 0.008, RNG.random(ROWS), 0)
    assert isinstance(only(rates), Binned)


def test_few_texts_are_labels_however_they_are_padded_and_codes_may_have_a_point():
    padded = RNG.choice([f"kind {letter}".ljust(40) for letter in "abcdefghijklmnopqrstuvw"], ROWS)
    assert not isinstance(only(padded.tolist()), str)
    sections = [f"{a:02}.{b:02}" for a in range(1, 41) for b in range(1, 51)]
    assert "identifier" in only(sections)


@pytest.mark.parametrize(
    "values",
    [
        RNG.lognormal(14, 2, ROWS), RNG.lognormal(20, 3, ROWS), RNG.normal(60_000, 9_000, ROWS),
        RNG.gamma(2, 4e8, ROWS),
    ],
    ids=["populations", "bytes", "salaries", "volumes"],
)  # fmt: skip
def test_whole_amounts_that_are_all_different_are_numbers(values):
    assert len(only(values.astype(np.int64)).edges) == 19


def test_numbers_are_times_if_they_are_recent_or_their_name_says_so():
    seconds = TIMES.astype(np.int64)
    assert list(found(seconds)) == ["x: date", "x: weekday", "x: hour"]
    old = seconds - 30 * 365 * 86_400
    assert list(found(old, "created_at")) == [
        f"created_at: {p}" for p in ("date", "weekday", "hour")
    ]
    assert list(found(old, "gps")) == ["gps"]
    ahead = seconds + 3 * 365 * 86_400
    assert list(found(ahead, "time")) == ["time"]
    table = Table.from_frame({"x": seconds})
    assert table.read_as["x: hour"] == "read as seconds since 1970"
    assert list(found(TIMES.astype("M8[ns]").astype(np.int64))) == list(found(seconds))


def test_most_rows_of_one_number_leave_the_rest_its_quantiles():
    cost = np.where(RNG.random(ROWS) < 0.97, 0, RNG.lognormal(3, 1, ROWS).round(2))
    reference = Reference.from_frame({"cost": cost})
    domain = reference.domain.features["cost"]
    assert len(domain.edges) > 10
    law = reference.probabilities
    for changed in (cost * 100, cost / 1000):
        other = Reference.from_frame(reference.domain, {"cost": changed}).probabilities
        assert abs(other - law).sum() / 2 > 0.02
    zero = domain.encode([0.0])[0]
    assert law[zero] == pytest.approx((cost == 0).mean())
    debts = only(np.where(RNG.random(ROWS) < 0.6, 0, RNG.normal(0, 50, ROWS)))
    assert 0 in debts.edges
    assert sum(edge < 0 for edge in debts.edges) > 4


def test_years_of_any_century_are_a_calendars():
    for first in (60, 1790, 1950, 2010):
        assert "move on" in only(RNG.integers(first, first + 90, ROWS), "year")
    assert isinstance(only(RNG.integers(1950, 2010, ROWS), "birth_year"), Binned)


def test_durations_are_seconds_and_times_of_day_hours():
    seconds = RNG.integers(0, 10**6, ROWS) * 10
    spans = pd.to_timedelta(seconds, unit="s")
    numbers = only(seconds)
    assert (
        only(spans) == only(list(spans.to_pytimedelta())) == only(list(map(str, spans))) == numbers
    )
    for clock in (CLOCK, list(map(str, CLOCK)), [t.strftime("%H:%M") for t in CLOCK]):
        assert only(clock) == Times("hour")
    months = found([f"{2015 + i % 9}-{1 + i * 7 % 12:02}" for i in range(ROWS)])
    assert isinstance(months["x: date"], Times)
    assert months["x: weekday"] == "they are months without a day"


def test_a_file_with_durations_and_odd_values_is_read_alike_on_both_sides(tmp_path):
    frame = pd.DataFrame(
        {
            "span": pd.to_timedelta(RNG.integers(0, 10**6, ROWS), unit="s"), "at": CLOCK,
            "isig": ["nil" if i % 20 == 3 else str(i % 977) for i in range(ROWS)],
            "cost": np.where(RNG.random(ROWS) < 0.9, 0, RNG.gamma(2, 50, ROWS).round(2)),
        }
    )  # fmt: skip
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    typed = Reference.from_frame(pd.read_parquet(tmp_path / "rows.parquet"))
    texts = Reference.from_csv(tmp_path / "rows.csv")
    assert texts.domain.features == typed.domain.features
    for reference in (typed, texts):
        for file in ("rows.csv", "rows.parquet"):
            same = Reference.from_samples(reference.domain, of_node(tmp_path / file))
            np.testing.assert_array_equal(same.probabilities, reference.probabilities)


def seldom(usual, odd):
    """A column of 500 values of which nearly all are alike."""
    values = [usual] * 500
    for place, value in odd.items():
        values[place] = value
    return values


MONTHS = [f"{1 + i % 12:02}/01/2024" for i in range(500)]
KINDS = {
    "amount": [f"{value:.2f}" for value in RNG.lognormal(3, 1, 500)],
    "children": [str(value) for value in RNG.integers(0, 4, 500)],
    "flag": [str(value) for value in RNG.integers(0, 2, 500)],
    "member": ["yes" if value else "no" for value in RNG.integers(0, 2, 500)],
    "job": RNG.choice(["nurse", "clerk", "cook"], 500).tolist(),
    "day": TIMES[:500].astype("M8[D]").astype(str).tolist(),
    "american": [t.item().strftime("%m/%d/%Y") for t in TIMES[:500]],
    "moment": TIMES[:500].astype("M8[s]").astype(np.int64).astype(str).tolist(),
    "tick": (TIMES[:500].astype("M8[s]").astype(np.int64) * 10**9).astype(str).tolist(),
    "clock": [str(value) for value in CLOCK[:500]],
    "serial": [str(value) for value in range(500)],
    "key": [f"K{value}" for value in RNG.permutation(10**6)[:500]],
    "place": ["here"] * 500,
    "cost": ["0" if value < 400 else str(value) for value in RNG.integers(0, 500, 500)],
    "icd": [f"I{10 + i % 12}.{j}" for i, j in RNG.integers(0, 100, (500, 2))],
    "empty": [""] * 500,
    "nearly empty": seldom("", {3: "7.5", 77: "7.25", 80: "2", 81: "3"}),
    "partly empty": seldom("", {i: "abcdefg"[i % 7] for i in range(60, 140)}),
    "a zero in between": seldom("0", {77: "8"}),
    "constant but for one": seldom("here", {9: "there"}),
    "answer or -9": [str(-9 if value == 0 else value) for value in RNG.integers(0, 6, 500)],
    "measured or 999": [f"{999 if i % 9 == 7 else 2 + i % 97 / 10:g}" for i in range(500)],
    "first of months": [MONTHS[i % 5] for i in range(500)],
    "long": [f"{i % 7}: " + "one of a few long answers to a question " * 2 for i in range(500)],
    "equally frequent": [f"city {chr(ord('z') - i % 21)}" for i in range(500)],
    "barcode": [str(4 * 10**9 + 7 * int(value)) for value in RNG.permutation(10**6)[:500]],
}


@pytest.mark.parametrize(("rows", "place"), [(100, 0), (100, 77), (200, 77)])
@pytest.mark.parametrize("kind", KINDS)
def test_one_odd_value_of_sixty_changes_its_own_symbol_alone(kind, rows, place):
    """On both sides: no other row, no number of rows, and not what its column is taken for."""
    held = KINDS[kind][:rows]
    frame = {"other": np.arange(rows) % 3, kind: held}
    usual = Table.from_frame(frame)
    symbols, others = usual.encode(frame), np.arange(rows) != place
    differ = []
    for odd in ODD:
        changed = {**frame, kind: [*held[:place], odd, *held[place + 1 :]]}
        np.testing.assert_array_equal(usual.encode(changed)[others], symbols[others])
        if shape(Table.from_frame(changed)) != shape(usual):
            differ.append(odd)
    assert differ == []
