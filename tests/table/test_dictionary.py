"""A data dictionary is read as it is written, and what people write wrongly gets a sentence."""

import sys
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipes import recipe_text

from flwr_kld import Binned, Codes, Dialect, Labels, Reference, Table, Times
from flwr_kld.table.base import domain_from_spec

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DOMAINS = st.one_of(
    st.lists(NAMES, unique=True, max_size=40).map(Labels),
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=5).map(Labels),
    st.lists(st.floats(-1e75, 1e75), unique=True, min_size=1, max_size=40).map(
        lambda edges: Binned(sorted(set(edges)))
    ),
    st.just(Binned([0, 10], [-3, 4.5, 1e9])),
    st.lists(NAMES, unique=True, min_size=1, max_size=5).map(lambda names: Codes(names, 3)),
    st.just(Codes(["I21"], prefix=3)),
    st.sampled_from(["hour", "weekday", "month", ["2024-01-01", "2024-07-01T12:30"]]).map(Times),
)


@st.composite
def tables(draw):
    features = draw(st.dictionaries(NAMES, DOMAINS, min_size=1, max_size=4))
    names = sorted(features)
    some = st.lists(st.sampled_from(names), unique=True)
    words = st.text(max_size=20).filter(str.isprintable)
    notes = {
        "units": {name: draw(words) for name in draw(some)},
        "descriptions": {name: draw(words) for name in draw(some)},
        "thresholds": {name: draw(st.floats(0, 10)) for name in draw(some)},
        "left_out": {"id": draw(words)},
    }
    dialect = Dialect(
        delimiter=draw(st.sampled_from([",", ";", "\t", "|"])),
        decimal=draw(st.sampled_from([".", ","])),
        missing=draw(st.lists(NAMES, max_size=30)),
        sentinels={name: draw(st.lists(NAMES, min_size=1, max_size=3)) for name in draw(some)},
    )
    sources = {name: draw(NAMES) for name in draw(some)}
    pairs = [(names[0], names[-1])] if len(names) > 1 and draw(st.booleans()) else []
    by = names[0] if len(names) > 1 and draw(st.booleans()) else None
    return Table(features, pairs, by, dialect=dialect, sources=sources, **notes)


@given(table=tables())
def test_what_is_written_is_read(table, tmp_path_factory):
    file = tmp_path_factory.mktemp("table") / "table.toml"
    table.to_toml(file)
    found = Table.from_toml(file)
    assert found.spec() == table.spec()
    assert found.notes == table.notes


def test_means_that_do_not_fit_edges_which_were_edited_are_left_out(tmp_path):
    file = tmp_path / "table.toml"
    Table({"age": Binned([10, 20], [5, 15, 25])}).to_toml(file)
    text = file.read_text()
    assert Table.from_toml(file).features["age"].means == (5, 15, 25)
    for edges in ("[10, 20, 30]", "[16, 20]"):
        file.write_text(text.replace("[10.0, 20.0]", edges))
        assert Table.from_toml(file).features["age"].means is None
    file.write_text(text.replace("[10.0, 20.0]", "[20, 10]"))
    with pytest.raises(ValueError, match="10"):
        Table.from_toml(file)


TABLE = """\
# what Ms Adams wrote
threshold = 0.1
interactions = [["age", "job"]]

[dialect]
delimiter = ";"
dates = "day-first"

[columns.age]  # at admission
kind = "binned"
edges = [
    18,
    30, 45,
]
unit = "years"
missing = [-999, "?"]

[columns.job]
kind = "labels"
names = ["nurse", "clerk"]
threshold = 0.05

[columns."admitted on"]
kind = "times"
by = [2024-01-01, 2024-07-01]
"""


def read(tmp_path, text):
    file = tmp_path / "table.toml"
    file.write_text(text)
    return Table.from_toml(file)


def test_people_write_it_by_hand(tmp_path):
    table = read(tmp_path, TABLE)
    assert table == Table(
        {
            "age": Binned([18, 30, 45]),
            "job": ["nurse", "clerk"],
            "admitted on": Times(["2024-01-01", "2024-07-01"]),
        },
        interactions=[("age", "job")],
        dialect=Dialect(delimiter=";", dates="day-first", sentinels={"age": ["-999", "?"]}),
    )
    assert table.units == {"age": "years"}
    others = dict.fromkeys(("age", "admitted on", "age × job"), 0.1)
    assert table.thresholds == {"job": 0.05} | others
    symbols = table.encode({"age": ["-999", "20"], "job": ["x", ""], "admitted on": ["", "1.2.24"]})
    assert [table.name_of(symbol) for symbol in symbols[0]][:1] == ["age=missing"]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('kind = "binned"', 'kind = "bined"', ["line 10", "'age'", "'bined'", "'binned'"]),
        ('kind = "binned"', "kind = 3", ["line 10", "'age'", "labels"]),
        ('kind = "binned"', 'kind = "categories"', ["line 10", "'categories'"]),
        ('kind = "binned"', 'kind = "labels"', ["'age'", "'edges'", "names"]),
        ('by = [2024-01-01, 2024-07-01]\n', "", ["line 24", "'admitted on'", "needs by"]),
        ("    30, 45,", "    45, 30,", ["line 11", "'age'", "30 comes after 45"]),
        ("    18,", '    "18",', ["line 11", "'age'", "numeric"]),
        ('names = ["nurse", "clerk"]', 'names = ["nurse", 1]', ["line 20", "'job'", "all of text"]),
        ('names = ["nurse", "clerk"]', 'names = ["a", "a"]', ["line 20", "'job'", "distinct"]),
        ('unit = "years"', 'unitt = "years"', ["line 15", "'age'", "'unitt'", "'unit'"]),
        ('unit = "years"', "unit = 1", ["line 15", "'age'", "unit", "text"]),
        ('[-999, "?"]', "-999", ["line 16", "'age'", '["-999"']),
        ("threshold = 0.05", "threshold = -1", ["line 21", "'job'", "threshold", "-1"]),
        ("threshold = 0.05", "threshold = nan", ["line 21", "'job'", "threshold"]),
        ("threshold = 0.1", 'threshold = "low"', ["line 2", "threshold", "'low'"]),
        ("threshold = 0.1", "treshold = 0.1", ["line 2", "'treshold'", "'threshold'"]),
        ('delimiter = ";"', 'delimiter = "x"', ["line 6", "delimiter", "'x'"]),
        ('delimiter = ";"', 'sentinels = {}', ["line 6", "'sentinels'"]),
        ('delimiter = ";"', 'encoding = "shift_jis"', ["line 6", "shift_jis"]),
        ('["age", "job"]', '["age", "jobs"]', ["table.toml", "interaction"]),
        ('["age", "job"]', '"age,job"', ["line 3", "pairs"]),
        ('[columns.job]\nkind = "labels"\nnames = ["nurse", "clerk"]', "[columns.job]", ["'job'"]),
        ("[columns.age]", "[columns.age", ["valid TOML", "line 9"]),
        ('[columns.job]', '[columns.age]', ["valid TOML"]),
        ("[dialect]", "[columns]\nage = 3\n[dialect]", ["valid TOML"]),
    ],
)  # fmt: skip
def test_a_slip_is_named_with_its_line_and_column(tmp_path, before, after, words):
    assert before in TABLE
    with pytest.raises(ValueError, match=r"table\.toml") as refused:
        read(tmp_path, TABLE.replace(before, after, 1))
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("text", ["", "columns = 3\n", "columns = {age = 3}\n", "[columns]\n"])
def test_a_file_without_columns_is_none(tmp_path, text):
    with pytest.raises(ValueError, match=r"table\.toml"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        Table.from_toml(tmp_path / "nowhere.toml")


def test_a_kind_of_ones_own_is_written_and_read(tmp_path):
    app = ModuleType("own_app")
    sys.modules["own_app"] = app
    exec(recipe_text("remainders.py"), vars(app))
    try:
        table = Table({"digit": app.Remainders(10), "hand": ["left", "right"]})
        table.to_toml(tmp_path / "table.toml")
        assert Table.from_toml(tmp_path / "table.toml") == table
    finally:
        del sys.modules["own_app"]


def test_units_and_thresholds_travel_with_a_reference_and_change_no_fingerprint(tmp_path):
    bare = Table({"age": Binned([30, 45])})
    told = Table(
        {"age": Binned([30, 45])}, units={"age": "years"}, descriptions={"age": "at admission"},
        thresholds={"age": 0.2}, left_out={"id": "an identifier"},
    )  # fmt: skip
    assert told.fingerprint == bare.fingerprint
    reference = Reference.from_frame(told, {"age": [20, 40, 60]})
    reference.save(tmp_path / "reference.json")
    loaded = Reference.load(tmp_path / "reference.json")
    assert loaded.fingerprint == Reference.from_frame(bare, {"age": [20, 40, 60]}).fingerprint
    assert loaded.domain.notes == told.notes
    assert Reference.load(tmp_path / "reference.json", bare).domain.notes == {}


def test_a_reference_of_another_table_is_refused_and_the_column_named(tmp_path):
    table = Table({"age": Binned([30, 45]), "job": ["nurse"]})
    Reference.from_frame(table, {"age": [20], "job": ["nurse"]}).save(tmp_path / "r.json")
    for other, words in (
        (Table({"age": Binned([30, 46]), "job": ["nurse"]}), "'age'"),
        (Table({"age": Binned([30, 45])}), "'job'"),
        (Table(table.features, dialect=Dialect(";")), "dialect"),
    ):
        with pytest.raises(ValueError, match=words):
            Reference.load(tmp_path / "r.json", other)


@pytest.mark.parametrize(
    "notes", [{"features": {}}, {"units": {"nobody": "m"}}, {"units": {"a": 1}}]
)
def test_notes_that_are_none_are_refused(tmp_path, notes):
    table = Table({"a": ["x"]})
    with pytest.raises(ValueError, match=r"features|nobody|'a'"):
        table.noting(notes)
    assert domain_from_spec(table.spec()) == table
