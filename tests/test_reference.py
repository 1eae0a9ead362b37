"""The public reference: what it accepts, how it travels, what is drawn from it."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from flwr.app import Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from numbered import Numbered

from flwr_kld.clients import node_records
from flwr_kld.reference import Reference
from flwr_kld.table.dialect import Dialect
from flwr_kld.table.labels import Labels
from flwr_kld.table.table import Table

COLOURS = Labels(["red", "green", "blue", "black"])
COUNTS = [6, 3, 0, 1]


def test_counts_are_normalised():
    assert Reference.from_counts(COLOURS, COUNTS).probabilities.tolist() == [
        0.6, 0.3, 0.0, 0.1, 0.0, 0.0
    ]  # fmt: skip


def test_other_and_missing_records_are_counted_too():
    records = ["red", "pink", None, "red", float("nan")]
    p = Reference.from_samples(COLOURS, records).probabilities
    assert p.tolist() == [0.4, 0.0, 0.0, 0.0, 0.2, 0.4]
    whole = Reference.from_counts(COLOURS, [6, 3, 0, 1, 2, 0])
    assert whole.probabilities[4] == 2 / 12


def test_samples_are_counted():
    records = ["red"] * 6 + ["green"] * 3 + ["black"]
    counted, sampled = (
        Reference.from_counts(COLOURS, COUNTS),
        Reference.from_samples(COLOURS, records),
    )
    assert sampled.fingerprint == counted.fingerprint


def test_probabilities_are_taken_as_they_are():
    given_ = [0.5, 0.25, 0.125, 0.125]
    assert Reference.from_probabilities(COLOURS, given_).probabilities.tolist() == [*given_, 0, 0]


def test_a_sum_that_is_off_by_rounding_is_mended():
    p = Reference.from_probabilities(COLOURS, [0.5, 0.25, 0.125, 0.1250009]).probabilities
    assert p.sum() == pytest.approx(1, abs=1e-15)


def test_the_floor_mixes_with_the_uniform_law():
    for build in (Reference.from_counts, Reference.from_probabilities):
        values = np.array(COUNTS) / 10 if build == Reference.from_probabilities else COUNTS
        p = build(COLOURS, values, floor=0.2).probabilities
        assert p == pytest.approx([0.53, 0.29, 0.05, 0.13, 0, 0])
    p = Reference.from_samples(COLOURS, ["red"], floor=0.4).probabilities
    assert p == pytest.approx([0.7, 0.1, 0.1, 0.1, 0, 0])
    p = Reference.from_samples(COLOURS, [None], floor=0.4, allow_unlisted=True).probabilities
    assert p == pytest.approx([0.1, 0.1, 0.1, 0.1, 0, 0.6])


@pytest.mark.parametrize("floor", [-0.1, 1, 1.5, np.nan])
def test_floor_out_of_range(floor):
    with pytest.raises(ValueError, match="floor"):
        Reference.from_counts(COLOURS, COUNTS, floor=floor)


@pytest.mark.parametrize("floor", [0.0, 0.5])
@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        ([0.5, 0.3, 0.1, 0.05], "from_counts"),
        ([2, 1, 0, 1], "counts"),
        (
            [0.5, 0.5],
            "symbols",
        ),
        ([[0.5, 0.5, 0, 0]], "shape"),
        ([1.02, -0.02, 0, 0], "negative"),
        ([0.5, 0.5, np.nan, 0], "negative"),
        ([np.inf, 0, 0, 0], "negative"),
    ],
)
def test_no_distribution(probabilities, message, floor):
    with pytest.raises(ValueError, match=message):
        Reference.from_probabilities(COLOURS, probabilities, floor=floor)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([0, 0, 0, 0], "zero"),
        ([1, -1, 3, 3], "non-negative"),
        ([1, np.nan, 3, 3], "finite"),
        ([1, np.inf, 3, 3], "finite"),
        ([1, 2, 3], "shape"),
        ([], "zero"),
    ],
)
def test_no_counts(counts, message):
    with pytest.raises(ValueError, match=message):
        Reference.from_counts(COLOURS, counts)


def test_probabilities_cannot_be_changed_from_outside():
    mine = np.array([0.5, 0.5, 0, 0])
    reference = Reference(COLOURS, mine)
    mine[0] = 0.9
    assert reference.probabilities[0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        reference.probabilities[0] = 0.9


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=200).filter(lambda c: sum(c) > 1e-3))
def test_normalising_twice_changes_no_bit(counts):
    domain = Labels(list(range(len(counts))))
    once = Reference.from_counts(domain, counts)
    assert replace(once, probabilities=once.probabilities).fingerprint == once.fingerprint


@pytest.mark.parametrize("made", [Reference, Reference.from_counts])
def test_normalising_is_exact_in_whatever_order_a_processor_adds(made):
    """Else a client's reference would have another fingerprint than the server's."""
    given = np.random.default_rng(0).random(1000)
    given = np.round(given / given.sum(), 6)  # as in a file
    given[0] += 1 - given.sum() + 5e-7
    domain = Numbered(1000)
    back = made(domain, given[::-1]).probabilities[::-1]
    assert made(domain, given).probabilities.tobytes() == back.tobytes()


@pytest.mark.parametrize("seed", range(30))
def test_saving_and_loading_keeps_the_fingerprint(tmp_path, seed):
    rng = np.random.default_rng(seed)
    domain = Labels(list(range(int(rng.integers(2, 500)))))
    saved = Reference.from_counts(domain, rng.integers(1, 100, domain.size))
    saved.save(tmp_path / "reference.json")
    loaded = Reference.load(tmp_path / "reference.json")
    assert loaded.fingerprint == saved.fingerprint
    assert loaded.domain == saved.domain


def test_the_fingerprint_tells_probabilities_and_domains_apart():
    base = Reference.from_counts(COLOURS, COUNTS)
    nudged = base.probabilities.copy()
    nudged[0], nudged[1] = np.nextafter(nudged[0], 1), np.nextafter(nudged[1], 0)
    renamed = Labels(["red", "green", "blue", "white"])
    fingerprints = {
        base.fingerprint,
        Reference(COLOURS, nudged).fingerprint,
        Reference(renamed, base.probabilities).fingerprint,
    }
    assert len(fingerprints) == 3


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        Reference.load(tmp_path / "nowhere.json")


def saved(tmp_path) -> dict:
    Reference.from_counts(COLOURS, COUNTS).save(tmp_path / "good.json")
    return json.loads((tmp_path / "good.json").read_text())


FOREIGN = {
    "empty": "",
    "text": "hello",
    "a number": "1",
    "deep JSON": "[" * 100_000,
    "no format": "{}",
    "a real number's format": {"format": 1.0},
    "a truth's format": {"format": True},
    "nothing more": {"format": 1},
    "another field": {"more": 1},
    "a domain in words": {"domain": "red, green or blue"},
    "texts": {"probabilities": ["0.3", "0.4", "0.3"]},
    "a list of lists": {"probabilities": [[1.0]]},
    "no number": {"probabilities": [float("nan"), 1.0, 0.0]},
    "no fingerprint": {"fingerprint": None},
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN.keys())
def test_foreign_files_are_refused(tmp_path, content):
    if isinstance(content, dict):
        whole = {} if content == {"format": 1} else saved(tmp_path)
        content = json.dumps(whole | content)
    (tmp_path / "foreign.json").write_text(content)
    with pytest.raises(ValueError, match=r"foreign\.json"):
        Reference.load(tmp_path / "foreign.json")


def test_a_damaged_file_is_refused(tmp_path):
    saved(tmp_path)
    good = (tmp_path / "good.json").read_bytes()
    for place in range(0, len(good) - 1, 7):
        damaged = bytearray(good)
        damaged[place] ^= 0x01
        (tmp_path / "damaged.json").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"damaged\.json"):
            Reference.load(tmp_path / "damaged.json")


def test_another_format_version_says_which(tmp_path):
    (tmp_path / "new.json").write_text(json.dumps(saved(tmp_path) | {"format": 2}))
    with pytest.raises(ValueError, match="format 2"):
        Reference.load(tmp_path / "new.json")


@pytest.mark.parametrize("counted", [[-1.0, 0.0], [0, 0.0], [5.0, float("nan")], [5.0], {}])
def test_a_file_that_was_counted_from_no_number_of_records_is_refused(tmp_path, counted):
    (tmp_path / "odd.json").write_text(json.dumps(saved(tmp_path) | {"counted": counted}))
    with pytest.raises(ValueError, match=r"records|file"):
        Reference.load(tmp_path / "odd.json")


def test_a_file_says_how_many_records_were_counted_and_how_noisily(tmp_path):
    law = np.array(COUNTS) / 10
    exact = Reference.from_probabilities(COLOURS, law)
    counted = Reference.from_counts(COLOURS, COUNTS)
    assert (exact.records, counted.records, counted.noise) == (None, 10.0, 0.0)
    noisy = replace(counted, noise=2.5)
    assert len({exact.fingerprint, counted.fingerprint, noisy.fingerprint}) == 3
    for reference in (exact, counted, noisy):
        reference.save(tmp_path / "r.json")
        again = Reference.load(tmp_path / "r.json")
        assert (again.records, again.noise) == (reference.records, reference.noise)
        assert again.fingerprint == reference.fingerprint


def test_a_table_has_as_many_records_as_the_column_with_fewest():
    table = Table({"colour": COLOURS, "size": Labels([1, 2])})
    reference = Reference.from_counts(table, {"colour": COUNTS, "size": [4, 3]})
    assert {name: one.records for name, one in reference.columns.items()} == {
        "colour": 7.0, "size": 7.0,
    }  # fmt: skip


ROWS = {
    "age": [17, 30, 70, 20] * 50,
    "job": ["nurse", "clerk, chief", None, "nurse"] * 50,
    "id": list(range(200)),
}


def test_public_rows_alone_make_a_reference_of_the_table_that_fits_them():
    made = Reference.from_frame(ROWS)
    table = Table.from_frame(ROWS)
    assert made.fingerprint == Reference.from_frame(table, ROWS).fingerprint
    assert list(made.columns) == ["age", "job"]
    assert list(made.domain.left_out) == ["id"]
    for frame in (pd.DataFrame(ROWS), pl.DataFrame(ROWS)):
        assert Reference.from_frame(frame).fingerprint == made.fingerprint


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_public_file_is_read_as_nodes_read_theirs(tmp_path, end):
    file = tmp_path / "public.csv"
    pd.DataFrame(ROWS).to_csv(file, index=False, lineterminator=end)
    made = Reference.from_csv(file)
    assert made.fingerprint == Reference.from_frame(ROWS).fingerprint
    assert Reference.from_csv(str(file), made.domain, floor=0.1) != made
    context = Context(1, 1, {"drift-records": str(file)}, RecordDict(), {})
    of_node = made.domain.encode(node_records(context))
    assert Reference.from_csv(file, made.domain).fingerprint == made.fingerprint
    assert of_node.tolist() == made.domain.encode(ROWS).tolist()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "header"),
        (b"age,job\n30,nurse\n31\n", "line 3"),
        (b'age,job\n30,"head\nnurse"\n', "line 2|line 3"),
        (b"age,age\n30,31\n", "'age'"),
        (b"age;job\n30;nurse\n", "column"),
    ],
)
def test_a_public_file_that_nodes_would_mend_is_refused_by_its_name(tmp_path, content, words):
    file = tmp_path / "public.csv"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=words):
        Reference.from_csv(file)


def test_a_public_file_in_another_encoding_than_its_table_says_is_refused(tmp_path):
    file = tmp_path / "public.csv"
    file.write_bytes(b"job\ncaf\xe9\n")
    table = Table({"job": ["café"]})
    with pytest.raises(ValueError, match="utf-8"):
        Reference.from_csv(file, table)
    told = Reference.from_csv(file, table, dialect=Dialect(encoding="latin-1"))
    assert told.probabilities[0] == 1.0


def test_counts_of_labels_may_be_given_by_name():
    made = Reference.from_counts(COLOURS, {"green": 3, "red": 6, "black": 1})
    assert made.fingerprint == Reference.from_counts(COLOURS, COUNTS).fingerprint
    with pytest.raises(ValueError, match="'pink'"):
        Reference.from_counts(COLOURS, {"pink": 1})


def test_zero_has_one_sign_in_the_fingerprint():
    domain = Labels(["a", "b"])
    first, second = (Reference.from_probabilities(domain, [1, zero]) for zero in (0.0, -0.0))
    assert first.fingerprint == second.fingerprint
