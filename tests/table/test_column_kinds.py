"""Columns of every kind, as six programs write them: recognised, and read alike on both sides."""

import csv
import io

import numpy as np
import pytest
from table.test_dialect import of_node

from flwr_kld import Reference

WRITERS = {
    # delimiter, decimal mark, date, text of no value, quoting, encoding, end of a line
    "pandas": (",", ".", "%Y-%m-%d", "", csv.QUOTE_MINIMAL, "utf-8", "\n"),
    "R": (",", ".", "%Y-%m-%d", "NA", csv.QUOTE_NONNUMERIC, "utf-8", "\n"),
    "Excel, German": (";", ",", "%d.%m.%Y", "", csv.QUOTE_MINIMAL, "cp1252", "\r\n"),
    "Excel, Unicode": ("\t", ".", "%m/%d/%Y", "", csv.QUOTE_MINIMAL, "utf-16", "\r\n"),
    "MySQL": ("|", ".", "%Y-%m-%d", "NULL", csv.QUOTE_ALL, "utf-8", "\n"),
    "French": (";", ",", "%d/%m/%Y", "N/A", csv.QUOTE_MINIMAL, "utf-8-sig", "\n"),
}
ROWS = 300
RNG = np.random.default_rng(5)
TIMES = np.datetime64("2023-01-01") + RNG.integers(0, 500 * 86_400, ROWS).astype("m8[s]")
DAYS = TIMES.astype("M8[D]").astype(str).tolist()
AMOUNTS = RNG.lognormal(3, 1, ROWS).round(1).tolist()
COUNTS = RNG.integers(18, 90, ROWS).tolist()
ICD = [f"I{10 + i % 12}.{j}" for i, j in RNG.integers(0, 20, (ROWS, 2)).tolist()]
ZIPS = [f"0{i}" for i in RNG.integers(1000, 1150, ROWS).tolist()]
HEADS = RNG.random(ROWS) < 0.5
ODD = RNG.random(ROWS) < 0.1
WORDS = [" ".join(["word"] * n) for n in RNG.integers(20, 60, ROWS).tolist()]


def number(value, mark):
    return f"{value}".replace(".", mark)


KINDS = {
    # what is written, given the decimal mark and the date's form; what it means; what is found
    "ICD": (lambda m, d: ICD, ICD, {"a"}),
    "postcodes": (lambda m, d: ZIPS, ZIPS, {"a"}),
    "days": (
        lambda m, d: [np.datetime64(day).item().strftime(d) for day in DAYS],
        DAYS,
        {"a: date", "a: weekday"},
    ),
    "times": (
        lambda m, d: [time.item().strftime(f"{d} %H:%M:%S") for time in TIMES],
        TIMES,
        {"a: date", "a: weekday", "a: hour"},
    ),
    "seconds": (
        lambda m, d: TIMES.astype("M8[s]").astype(np.int64).tolist(),
        TIMES,
        {"a: date", "a: weekday", "a: hour"},
    ),
    "milliseconds": (
        lambda m, d: TIMES.astype("M8[ms]").astype(np.int64).tolist(),
        TIMES,
        {"a: date", "a: weekday", "a: hour"},
    ),
    "sentinel": (
        lambda m, d: np.where(ODD, 999, COUNTS).tolist(),
        [None if odd else count for odd, count in zip(ODD, COUNTS, strict=True)],
        {"a"},
    ),
    "sentinel among decimals": (
        lambda m, d: [number(-999.0 if o else a, m) for o, a in zip(ODD, AMOUNTS, strict=True)],
        [None if odd else amount for odd, amount in zip(ODD, AMOUNTS, strict=True)],
        {"a"},
    ),
    "percent": (lambda m, d: [number(a, m) + " %" for a in AMOUNTS], AMOUNTS, {"a"}),
    "currency": (lambda m, d: ["€" + number(a, m) for a in AMOUNTS], AMOUNTS, {"a"}),
    "yes": (lambda m, d: ["Yes" if head else "no" for head in HEADS], HEADS, {"a"}),
    "ja": (lambda m, d: ["JA" if head else "nein" for head in HEADS], HEADS, {"a"}),
    "T": (lambda m, d: ["T" if head else "F" for head in HEADS], HEADS, {"a"}),
    "0/1": (lambda m, d: [int(head) for head in HEADS], HEADS, {"a"}),
    "identifiers": (lambda m, d: [f"K{i * 7919}" for i in range(ROWS)], None, set()),
    "notes": (lambda m, d: WORDS, None, set()),
    "serial": (lambda m, d: list(range(ROWS)), None, set()),
}


PAIRS = [
    *(("Excel, German", kind) for kind in KINDS),
    *((writer, kind) for writer in WRITERS for kind in ("times", "sentinel among decimals")),
]


@pytest.mark.parametrize(("writer", "kind"), dict.fromkeys(PAIRS))
def test_a_column_is_recognised_and_read_alike_on_both_sides(tmp_path, writer, kind):
    delimiter, mark, date, nothing, quoting, encoding, end = WRITERS[writer]
    written, meant, expected = KINDS[kind]
    lines = io.StringIO()
    lined = csv.writer(lines, delimiter=delimiter, quoting=quoting, lineterminator=end)
    lined.writerow(["a", "b"])
    values = written(mark, date)
    lined.writerows((nothing if i % 50 == 9 else values[i], "xy"[i % 2]) for i in range(ROWS))
    file = tmp_path / "rows.csv"
    file.write_bytes(lines.getvalue().encode(encoding))

    reference = Reference.from_csv(file)
    table = reference.domain
    assert set(table.features) == expected | {"b"}
    left_out = {"a", "a: hour"} if "a: date" in expected else {"a"}
    assert set(table.left_out) == left_out - expected - ({"a"} if expected else set())
    of_file = table.encode(of_node(file))
    again = Reference.from_samples(table, of_node(file))
    np.testing.assert_array_equal(again.probabilities, reference.probabilities)
    if meant is not None:
        held = [None if i % 50 == 9 else value for i, value in enumerate(list(meant))]
        np.testing.assert_array_equal(of_file, table.encode({"a": held, "b": ["x", "y"] * 150}))
        for column in expected:  # and the symbols tell the values apart
            assert np.count_nonzero(reference.columns[column].probabilities) >= 2
            assert reference.columns[column].unlisted.get("missing", 0) >= 6 / ROWS
