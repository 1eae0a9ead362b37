"""Table: one symbol in each column, numbered one column after the other."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import counted

from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import cells_from_wire, cells_of_columns
from flwr_kld.common.errors import DomainError
from flwr_kld.reference import Reference
from flwr_kld.table.base import domain_from_spec
from flwr_kld.table.binned import Binned
from flwr_kld.table.categories import Categories
from flwr_kld.table.table import Table

TABLE = Table({"age": Binned([18, 65]), "sex": ["f", "m"]}, interactions=[("sex", "age")])
ROWS = {"age": [3, 20.0, 70, None], "sex": ["f", "m", "x", "f"]}


def test_each_row_has_a_symbol_in_every_column():
    assert TABLE.encode(ROWS).tolist() == [[0, 4, 8], [1, 5, 13], [2, 6, 18], [3, 4, 11]]
    assert TABLE.sizes == (4, 4, 16)
    assert TABLE.per_record == 3
    assert TABLE.holds(TABLE.encode(ROWS))


def test_columns_are_those_of_their_own_domains():
    columns = zip(TABLE.columns.items(), TABLE.parts, TABLE.encode(ROWS).T, strict=True)
    for (name, domain), part, own in columns:
        records = ROWS if isinstance(domain, Categories) else ROWS[name]
        assert (own - part.start).tolist() == domain.encode(records).tolist()


@pytest.mark.parametrize("by", [None, "site"])
@pytest.mark.parametrize("cells", [3, 200, 6552, 6553, 32_764, 32_765, 40_000, 70_000])
def test_no_number_of_cells_makes_a_symbol_overflow(cells, by):
    table = Table({"wide": Binned(range(cells - 2)), "site": ["a", "b"]}, by=by)
    rows = {"wide": [-1.0, 0.0, cells, None], "site": ["a", "b", "c", None]}
    symbols = table.encode(rows)
    before, expected = 0, []
    for name, domain in table.columns.items():
        own = domain.encode(rows if isinstance(domain, Categories) else rows[name])
        expected.append([before + symbol for symbol in own.tolist()])
        before += domain.size
    assert symbols.T.tolist() == expected
    assert table.holds(symbols)
    assert not table.holds(symbols - 1)
    counts = np.bincount(np.ravel(expected), minlength=table.size)
    reference = Reference.from_samples(table, rows)
    assert reference.fingerprint == Reference.from_counts(table, counts).fingerprint
    plan = Partition().draw(reference, np.random.default_rng(0))
    wire = counted(plan, symbols).to_wire(0)
    assert wire == counted(plan, np.array(expected).T).to_wire(0)
    assert np.frombuffer(wire, "<i4").tolist() == np.bincount(plan.cell_of, counts).tolist()


def test_a_long_table_takes_two_bytes_a_symbol():
    assert TABLE.encode(ROWS).itemsize == 2


def test_a_column_of_a_users_own_kind_is_read_by_it():
    class Fahrenheit(Binned):
        def encode(self, records):
            return super().encode((np.asarray(records) - 32) / 1.8)

    table = Table({"plain": Binned([0, 20]), "heat": Fahrenheit([0, 20])})
    assert table.encode({"plain": [50.0], "heat": [50.0]}).tolist() == [[2, 5]]


def test_symbols_are_named_by_column():
    names = [TABLE.name_of(symbol) for symbol in range(TABLE.size)]
    assert names[:8] == [
        "age=< 18", "age=[18, 65)", "age=>= 65", "age=missing",
        "sex=f", "sex=m", "sex=other", "sex=missing",
    ]  # fmt: skip
    assert names[8] == "sex=f, age=< 18"
    assert len(set(names)) == TABLE.size


def test_a_symbol_of_another_column_is_not_held():
    symbols = TABLE.encode(ROWS)
    assert not TABLE.holds(symbols[:, [1, 0, 2]])
    assert not TABLE.holds(symbols[:, 0])
    assert TABLE.holds(TABLE.encode({"age": [], "sex": []}))


@given(st.permutations(["age", "sex", "job"]))
def test_the_order_of_columns_changes_no_column(order):
    features = {"age": Binned([18, 65]), "sex": ["f", "m"], "job": [1, 2, 3]}
    rows = {**ROWS, "job": [3, 2, 1, 0]}
    table = Table({name: features[name] for name in order})
    reference = Reference.from_samples(table, rows)
    for name in order:
        own = Reference.from_samples(table.columns[name], rows[name])
        assert reference.columns[name].fingerprint == own.fingerprint


@pytest.mark.parametrize(
    ("features", "interactions", "message"),
    [
        ({}, [], "feature"),
        ([("a", [1])], [], "a mapping"),
        ({1: [1]}, [], "must be text"),
        ({"a": Categories({"b": [1]})}, [], "feature"),
        ({"a": Table({"b": [1]})}, [], "feature"),
        ({"a": [1], "b": [1]}, [("a", "c")], "features"),
        ({"a": [1], "b": [1]}, [("a", "a")], "features"),
        ({"a": [1], "b": [1]}, ["ab"], "features"),
        ({"a": [1], "b": [1]}, [("a", "b"), ("b", "a")], "named"),
        ({"a": [1], "b": [1], "a × b": [1]}, [("a", "b")], "names"),
    ],
)
def test_no_table(features, interactions, message):
    with pytest.raises(DomainError, match=message):
        Table(features, interactions)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"age": [1]}, "sex"),
        ({"age": [1], "sex": ["f", "m"]}, "same"),
        ({"age": [[1]], "sex": np.array([["f"]])}, "sex"),
        (np.array([7777, 8888]), "frame"),
        (7777, "frame"),
        ("7777", "frame"),
    ],
)
def test_no_rows(rows, message):
    with pytest.raises(DomainError, match=message) as caught:
        TABLE.encode(rows)
    assert "7777" not in str(caught.value)


def test_every_column_of_a_reference_is_a_law():
    reference = Reference.from_samples(TABLE, ROWS)
    assert [reference.probabilities[part].sum() for part in TABLE.parts] == pytest.approx([1] * 3)
    given = {"age": [1, 2, 1], "sex": [3, 1], "sex × age": np.ones(16)}
    columns = Reference.from_counts(TABLE, given).columns
    assert columns["age"].probabilities.tolist() == [0.25, 0.5, 0.25, 0]
    assert columns["sex"].probabilities.tolist() == [0.75, 0.25, 0, 0]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"age": [1, 1, 1], "sex": [1, 1]}, "columns"),
        ({"age": [1, 1, 1], "sex": [0, 0], "sex × age": np.ones(16)}, "zero"),
        ({"age": [1, 1, 1], "sex": [1, 1, 1], "sex × age": np.ones(16)}, "shape"),
    ],
)
def test_no_reference(counts, message):
    with pytest.raises(ValueError, match=message):
        Reference.from_counts(TABLE, counts)


def test_a_column_that_does_not_sum_to_one_is_named():
    law = Reference.from_samples(TABLE, ROWS).probabilities.copy()
    law[4:8] *= 2
    with pytest.raises(ValueError, match="'sex'"):
        Reference(TABLE, law)


def test_the_cells_of_a_column_follow_those_of_the_column_before():
    reference = Reference.from_counts(TABLE, np.arange(1, TABLE.size + 1))
    plan = Partition(16).draw(reference, np.random.default_rng(0))
    assert plan.cells == sum(column.cells for column in plan.columns.values())
    assert list(plan.columns) == list(reference.columns)
    for name, part in zip(plan.columns, plan.parts, strict=True):
        column, own = plan.columns[name], reference.columns[name]
        assert column.reference.fingerprint == own.fingerprint
        assert column.cell_of.max() + 1 == column.cells == part.stop - part.start
        assert column.mass.tolist() == plan.mass[part].tolist()
    read = cells_from_wire(plan.wire, TABLE, plan.layout.cells, plan.fingerprint)
    assert read.tolist() == plan.cell_of.tolist()


@pytest.mark.parametrize(
    ("cell_of", "cells"),
    [
        ([0, 1, 0, 1], 2),  # both columns in the same cells: a record would count twice in one
        ([0, 1, 1, 2], 3),
        ([2, 3, 0, 1], 4),
        ([0, 1, 3, 3], 4),
        ([0, 1, 2, 3], 5),
        ([0, 2, 1, 3], 4),
    ],
)
def test_columns_that_share_cells_are_refused(cell_of, cells):
    with pytest.raises(ValueError, match="column"):
        cells_of_columns(np.array(cell_of, dtype=np.int32), (2, 2), cells)


def test_a_record_moves_every_column_by_one_whatever_it_changes_to():
    """Enumerated: all neighbouring tables of three rows move two cells a column, by one each."""
    table = Table({"a": [0, 1], "b": [0]}, interactions=[("a", "b")])
    reference = Reference.from_counts(table, np.ones(table.size))
    plan = Partition(16).draw(reference, np.random.default_rng(0))
    rows = list(itertools.product([0, 1, 2, None], [0, 1, None]))

    def counts(*chosen):
        a, b = zip(*chosen, strict=True)
        cells = plan.cell_of[table.encode({"a": list(a), "b": list(b)}).ravel()]
        return np.bincount(cells, minlength=plan.cells)

    largest = 0
    for first, other, kept in itertools.product(rows, rows, itertools.combinations(rows, 2)):
        move = counts(first, *kept) - counts(other, *kept)
        assert np.abs(move).max() <= 1
        for part in plan.parts:
            assert sorted(move[part][move[part] != 0].tolist()) in ([], [-1, 1])
        largest = max(largest, int(np.abs(move).sum()))
    assert largest == 2 * table.per_record


def test_groups_add_a_column_for_every_other_feature():
    features = {"age": Binned([18, 65]), "sex": ["f", "m"], "site": ["a", "b"]}
    table = Table(features, [("age", "site"), ("age", "sex")], by="site")
    assert list(table.columns)[3:] == ["age × site", "age × sex", "site × sex"]
    assert table.by_group == ("age × site", "site × sex")
    assert domain_from_spec(table.spec()) == table
    assert Table(features).by_group == ()
    assert Table(features, table.interactions) != table


@pytest.mark.parametrize("by", ["region", "age"])
def test_groups_are_of_one_of_several_features(by):
    with pytest.raises(DomainError, match="one"):
        Table({"age": Binned([18, 65])}, by=by)


def test_all_orders_of_columns_ask_the_same_of_each():
    """References, cells and weights of a column are its own, whatever stands beside it."""
    rng = np.random.default_rng(0)
    features = {f"x{i}": Binned(np.arange(i + 2)) for i in range(4)}
    counts = {n: rng.multinomial(999, [1 / d.size] * d.size) for n, d in features.items()}
    alone = {
        name: Partition(16).draw(Reference.from_counts(domain, counts[name]), rng)
        for name, domain in features.items()
    }
    for order in itertools.permutations(features):
        table = Table({name: features[name] for name in order})
        plan = Partition(16).draw(Reference.from_counts(table, counts), rng)
        for name, column in plan.columns.items():
            assert column.fingerprint == alone[name].fingerprint
            assert column.weight.tolist() == alone[name].weight.tolist()


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("interactions", 5), ("dialect", ";"), ("units", 5), ("thresholds", 0.1),
        ("descriptions", ["age"]), ("left_out", "id"), ("sources", 5), ("scores", 5),
    ],
)  # fmt: skip
def test_an_argument_of_another_type_is_refused_by_name(argument, wrong):
    with pytest.raises(ValueError, match=argument):
        Table({"age": Binned([18]), "job": ["nurse"]}, **{argument: wrong})
