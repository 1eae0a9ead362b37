"""Records that a node's config names: every source gives the same symbols, errors quote nothing."""

import logging
import sqlite3
import sys

import numpy as np
import polars as pl
import pytest
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Labels, Table, Times
from flwr_kld.clients import answer_drift_queries, node_records
from flwr_kld.clients.admission import admit
from flwr_kld.errors import QueryRefused
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, ReferenceFromClients, Trusted

TABLE = Table({"age": Binned([18, 65]), "job": Labels(["nurse", "clerk"]), "at": Times("hour")})
ROWS = {
    "note": ["a", "b, c", None, "d"],
    "age": [17.5, None, 70, 20],
    "job": ["nurse", "pilot", None, "clerk"],
    "at": ["2024-01-01T05:00:00", "2024-01-01", None, "2024-01-01 23:00"],
}


def context(**config):
    return Context(0, 1, {k.replace("_", "-"): str(v) for k, v in config.items()}, RecordDict(), {})


@pytest.fixture
def places(tmp_path):
    frame = pl.DataFrame(ROWS, strict=False)
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_parquet(tmp_path / "rows.parquet")
    with sqlite3.connect(tmp_path / "rows.db") as database:
        database.execute("CREATE TABLE people (note, age, job, at)")
        rows = zip(*ROWS.values(), strict=True)
        database.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", list(rows))
    return {
        "csv": {"drift_records": tmp_path / "rows.csv"},
        "parquet": {"drift_records": tmp_path / "rows.parquet"},
        "sql": {
            "drift_records": f"sqlite:///{tmp_path}/rows.db",
            "drift_query": "SELECT * FROM people WHERE job LIKE '%' OR job IS NULL",
        },
    }


@pytest.mark.parametrize("source", ["csv", "parquet", "sql"])
def test_every_source_gives_the_same_symbols(places, source):
    loaded = node_records(context(**places[source]))
    assert TABLE.encode(loaded).tolist() == TABLE.encode(ROWS).tolist()


def test_no_field_of_a_csv_changes_another_row(tmp_path):
    file = tmp_path / "rows.csv"
    long = "x" * 200_000
    file.write_bytes(
        f'age,job\n17,nurse\n,\n"a\nb",clerk\n20\n30,clerk,7\n\n{long},nurse\n'.encode()
        + b"\xff\0,clerk\n"
    )
    loaded = node_records(context(drift_records=file))
    assert loaded["age"][:6] == ["17", None, "a\nb", "20", "30", long]
    assert loaded["job"] == ["nurse", None, "clerk", None, "clerk", "nurse", "clerk"]
    file.write_text("age,job\n")
    assert node_records(context(drift_records=file)) == {"age": [], "job": []}


@pytest.mark.parametrize(
    ("records", "query"),
    [
        (None, None),
        ("rows.csv", None),
        ("/SECRET/rows.csv", None),
        ("/SECRET/rows.xlsx", None),
        ("postgresql://drift:SECRET@localhost:1/x", "SELECT 1"),
        ("nonsense://drift:SECRET@localhost/x", "SELECT 1"),
        ("sqlite://", None),
        ("sqlite://", "SELECT SECRET"),
        ("sqlite://", "SELECT 1 AS a, 2 AS a"),
    ],
)
def test_a_refusal_quotes_nothing(records, query, caplog):
    config = {"drift_records": records, "drift_query": query}
    named = {key: value for key, value in config.items() if value is not None}
    with caplog.at_level(logging.DEBUG), pytest.raises(QueryRefused) as caught:
        node_records(context(**named))
    assert caught.value.__suppress_context__
    assert "SECRET" not in caplog.text + str(caught.value)
    assert "drift-records" in caplog.text


def test_an_app_needs_one_line(tmp_path):
    """Clients make a table's reference in one release, and are then checked against it."""
    rng = np.random.default_rng(0)
    files = []
    for node in range(20):
        files.append(tmp_path / f"{node}.parquet")
        jobs = rng.choice(["nurse", "clerk"], 100, p=[0.8, 0.2])
        pl.DataFrame(
            {"age": rng.integers(0, 90, 100), "job": jobs, "at": [None] * 100}
        ).write_parquet(files[-1])
    app = ClientApp()
    answer_drift_queries(
        app,
        records=lambda c: node_records(
            context(drift_records=files[int(c.node_config["partition-id"])])
        ),
        domain=TABLE,
    )
    grid = InProcessGrid(app, 20)
    reference, report = ReferenceFromClients(TABLE, Trusted(2.0, 1e-6)).build(grid)
    assert reference.domain == TABLE
    assert reference.columns["job"].probabilities[:2] == pytest.approx([0.8, 0.2], abs=0.05)
    assert reference.columns["at"].unlisted["missing"] > 0.9
    assert report.cohort.survivors == 20
    checked = KLDrift(reference, Trusted(2.0, 1e-6), seed=0).check(grid)
    assert checked.columns.keys() == {"age", "job", "at"}


class Ray:
    @staticmethod
    def is_initialized() -> bool:
        return True


def simulated(sample, number=0, nodes=2, **config) -> Context:
    own = {"partition-id": number, "num-partitions": nodes, **config}
    return Context(0, 1, own, RecordDict(), {"drift-sample": str(sample)})


@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_simulated_nodes_share_out_the_sample(places, monkeypatch, source):
    monkeypatch.setitem(sys.modules, "ray", Ray)
    (file,) = places[source].values()
    parts = [TABLE.encode(node_records(simulated(file, i, 3))).tolist() for i in range(3)]
    every = TABLE.encode(ROWS).tolist()
    assert parts == [every[i::3] for i in range(3)]


@pytest.mark.parametrize("ray", [None, Ray])
def test_a_real_node_reads_no_file_that_the_server_names(places, monkeypatch, ray):
    monkeypatch.setitem(sys.modules, "ray", ray)
    own = {"drift-records": str(places["csv"]["drift_records"])} if ray else {}
    with pytest.raises(QueryRefused, match="real one: run it with drift-sample = ''"):
        node_records(simulated(places["csv"]["drift_records"], **own))
    nowhere = Context(0, 1, {}, RecordDict(), {"drift-sample": "/etc/rows.csv"})
    with pytest.raises(QueryRefused, match="real one"):
        node_records(nowhere)


def test_a_sample_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", Ray)
    with pytest.raises(QueryRefused, match=r"sample of the simulation cannot be read \(FileNotF"):
        node_records(simulated(tmp_path / "gone.csv"))


def test_a_simulation_is_refused_before_a_nodes_guard_spends_for_it(places):
    own = {"drift-records": str(places["csv"]["drift_records"]), "drift-guard": "/not/read.toml"}
    with pytest.raises(QueryRefused, match="this node is a real one"):
        admit(simulated("/srv/sample.csv", **own), None, 0)  # no question is read
