"""Lies about tables: a server that moves a record further than it says, clients that miscount.

Each lie of the server is as consistent as it can be (its fingerprints fit), and is refused before
anything is counted, or bounds what is counted all the same.
"""

import zlib
from contextlib import suppress
from functools import partialmethod

import numpy as np
import pytest
from adversary.lying_server import watching
from adversary.mutations import fit_sessions
from federation import grid_of
from rows import rows_of, values_of
from sealed_federation import KEY, federation, on_request
from tables import REFERENCE, TABLE, rows, table_app
from trust.vector_forms import claim, counts

from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import plan_fingerprint
from flwr_kld.clients.own_records import OwnRecords, Records
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.kernel.vector import ClearSum, Layout
from flwr_kld.strategies import (
    Distributed,
    KLDrift,
    SecureSum,
    Trusted,
    TrustedAggregator,
)
from flwr_kld.trust.terms import Terms

PLAN = Partition().draw(REFERENCE, np.random.default_rng(0))
CELLS, COLUMNS = PLAN.cell_of, 3
SETTINGS = {
    "plain": (Trusted(3.0), None),
    "sum": (Trusted(3.0), SecureSum),
    "sealed": (TrustedAggregator(3.0, aggregator=KEY.public), None),
    "shares": (Distributed(3.0, min_clients=5), SecureSum),
}
LIAR = 1000


def told_otherwise(name, *, cells=None, terms=None):
    """Let an honest server's clients hear lies; return what came of the check, and what was done.

    `terms` changes fields, `cells` the map of symbols.
    """
    trust, kind = SETTINGS[name]
    honest = table_app(aggregator=KEY.public)

    def client(message, context):
        asked = message.content.get("terms", {})
        if "wire" in asked:
            lie(message.content, asked)
        return honest(message, context)

    def lie(content, asked):
        cell_of = CELLS if cells is None else np.asarray(cells, dtype=np.int32)
        asked["wire"] = zlib.compress(cell_of.astype("<i4").tobytes())
        if cells is not None:
            asked["cells"] = [1, 1, max(int(cell_of.max()) - 1, 1)]
            if cell_of.min() >= 0:
                asked["plan"] = plan_fingerprint(asked["domain"], cell_of)
        asked.update(terms or {})
        if "phase" in content:
            with suppress(ValueError):  # the client is to refuse what cannot be read
                fit_sessions(content)

    grid = federation(client, nodes=21) if name == "sealed" else grid_of(client, 20)
    with watching() as seen:
        asking = KLDrift(REFERENCE, trust, aggregation=kind and kind(), threshold=0.05)
        try:
            return asking.check(grid), seen
        except CheckFailed as error:
            return str(error), seen


def shifted(column: int, by: int) -> np.ndarray:
    cells = CELLS.copy()
    cells[TABLE.parts[column]] += by
    return cells


SHARED = {
    "a cell of two columns": shifted(1, -1),
    "a cell of the last two columns": shifted(2, -1),
    "all columns in the same cells": CELLS - np.repeat([0, 6, 10], TABLE.sizes),
    "columns in another order": np.concatenate([CELLS[:6] + 4, CELLS[6:10] - 6, CELLS[10:]]),
    "a cell between columns": np.concatenate([CELLS[:6], CELLS[6:] + 1]),
    "one cell for all": CELLS * 0,
}


@pytest.mark.parametrize("cells", SHARED.values(), ids=list(SHARED))
@pytest.mark.parametrize("name", SETTINGS)
def test_columns_that_share_cells_are_refused(name, cells):
    """A record would count twice in a cell: 2 where the noise hides 1."""
    why, seen = told_otherwise(name, cells=cells)
    assert "the cells of each column must follow those of the column before" in why
    assert not seen.admitted
    assert not seen.counted


@pytest.fixture
def calibrated(monkeypatch):
    """What noise somebody looked for, and under which terms; none is found."""
    looked_for = []

    def note(terms, noise):
        looked_for.append((noise, terms))

    for noise in ("share", "central"):
        monkeypatch.setattr(Terms, noise, partialmethod(note, noise))
    return looked_for


@pytest.mark.parametrize("columns", [1, 2, 4, 4096])
@pytest.mark.parametrize("name", SETTINGS)
def test_another_number_of_columns_is_refused(name, columns, calibrated):
    """Noise for one column hides a third of the move; that of 4,096 takes half a minute to find."""
    told = [PLAN.cells] if columns == 1 else [1] * (columns - 1) + [PLAN.cells - 1]
    why, seen = told_otherwise(name, terms={"cells": told})
    assert "number of columns is not the domain's" in why or "for each column" in why, why
    assert not seen.admitted
    assert not seen.counted
    assert {terms.columns for _, terms in calibrated} <= {COLUMNS}


@pytest.mark.parametrize("most", [0, 1, 20, 21, 2**31 - 1])
def test_whole_clients_count_as_many_records_as_their_noise_is_sized_for(most, monkeypatch):
    put, count = [], Records.counted

    def counting(*args):
        rows = count(*args)
        put.extend(values_of(rows).copy())
        return rows

    monkeypatch.setattr(Records, "counted", counting)
    trust = Distributed(3.0, min_clients=5, delta=1e-6, protects=WholeClients(20))
    monkeypatch.setitem(SETTINGS, "clients", (trust, SecureSum))
    why, _ = told_otherwise("clients", terms={"most_records": most})
    if most != 20:
        assert "most_records" in why
        assert not put
        return
    assert put
    assert {int(v[part].sum()) for v in put for part in PLAN.parts} == {20}


def test_shares_are_of_the_noise_that_is_claimed():
    """Of one guarantee, which is the claim: no field says another of the noise."""
    why, seen = told_otherwise("shares", terms={"guarantee": claim(epsilon=30.0)})
    assert not seen.counted or {terms.guarantee.epsilon for terms in seen.counted} == {30.0}, why


def test_an_aggregator_calibrates_for_boxes_that_open_only(calibrated):
    """Noise for so many columns takes half a minute."""

    def widen(content):
        content["terms"].update(cells=[1] * 4096, asked_for=counts(counts=[1] * 4096))

    grid = federation(table_app(aggregator=KEY.public), meddle=on_request(widen))
    with pytest.raises(CheckFailed, match="NotOpened"):
        KLDrift(REFERENCE, SETTINGS["sealed"][0]).check(grid)
    assert "central" not in {noise for noise, _ in calibrated}


def test_the_number_of_records_is_counted_once():
    """It is of one column, not of all: 300 columns, 10 million records."""
    columns, records = 300, 10_000_000
    rows = rows_of(Layout((1,) * columns), [records] * columns)
    vector = rows.summand(0, None, SystemBits(), counted=True)
    assert int(values_of(vector)[-1]) == records


def moved(values, of_column=0, by=1000):
    values = values.copy()
    values[PLAN.parts[of_column]][0] += by
    return values


MISCOUNTS = {
    "another total in one column": lambda v: moved(v, 0),
    "another total in the last column": lambda v: moved(v, 2),
    "records of one column only": lambda v: np.where(np.arange(len(v)) < 6, v, 0),
    "more than the most in all columns": lambda v: v * 10,
    "counts below 0": lambda v: -v,
}


@pytest.fixture
def miscount(monkeypatch):
    """Let node 1000 say other counts."""

    def install(change):
        load, count, node = OwnRecords.load, Records.counted, {}

        def loading(own, context, *args, **limits):
            node["id"] = context.node_id
            return load(own, context, *args, **limits)

        def counting(*args):
            rows = count(*args)
            if node["id"] == LIAR:
                rows._values = change(rows._values[0]).astype(np.int32)[None]
            return rows

        monkeypatch.setattr(OwnRecords, "load", loading)
        monkeypatch.setattr(Records, "counted", counting)

    return install


@pytest.mark.parametrize("change", MISCOUNTS.values(), ids=list(MISCOUNTS))
@pytest.mark.parametrize("name", ["plain", "sealed"])
def test_a_client_whose_columns_contradict_each_other_is_left_out(name, change, miscount):
    miscount(change)
    trust, _ = SETTINGS[name]
    app = table_app(aggregator=KEY.public)
    grid = federation(app) if name == "sealed" else grid_of(app)
    report = KLDrift(REFERENCE, trust, most_records=100).check(grid)
    ((reason, n),) = report.cohort.dropouts.items()
    assert n == 1
    assert any(words in reason for words in ("in each column", "most records", "not be negative"))
    assert report.reading.records == 1900


@pytest.mark.parametrize("name", ["sum", "shares"])
def test_columns_that_do_not_add_up_show_in_a_secure_sum(name, miscount):
    miscount(lambda values: moved(values, 1, 10_000))
    trust, _ = SETTINGS[name]
    report = KLDrift(REFERENCE, trust, aggregation=SecureSum()).check(grid_of(table_app()))
    for column in report.columns.values():
        assert column.reading.note.startswith("the published numbers contradict each other: ")


@pytest.mark.parametrize("name", SETTINGS)
def test_a_heavy_client_counts_a_sample_of_rows(name):
    def records(context):
        return rows(context, each=400 if context.node_id == LIAR else 100)

    trust, kind = SETTINGS[name]
    app = table_app(records, aggregator=KEY.public)
    grid = federation(app) if name == "sealed" else grid_of(app)
    monitor = KLDrift(REFERENCE, trust, aggregation=kind and kind(), most_records=150)
    report = monitor.check(grid)
    assert (report.cohort.survivors, report.reading.records) == (20, 19 * 100 + 150)


def test_a_reply_of_one_column_is_not_spread_over_all():
    with pytest.raises(InvalidReply, match="shape"):
        ClearSum(PLAN.layout, rows_of(Layout((6,)), [1] * 6))
