"""Records that a node's config names: every source gives the same symbols, errors quote nothing."""

import gzip
import logging
import os
import sqlite3
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp

from flwr_kld import Binned, Labels, Reference, Table, Times
from flwr_kld.clients import answer_drift_queries, node_records
from flwr_kld.clients.admission import Gate
from flwr_kld.common.errors import CheckFailed, QueryRefused
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Statistics, Trusted

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


def test_a_query_cannot_write(places):
    named = {**places["sql"], "drift_query": "DELETE FROM people RETURNING age, job, at"}
    with pytest.raises(QueryRefused, match="OperationalError"):
        node_records(context(**named))
    assert len(node_records(context(**places["sql"]))["age"]) == 4


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.db"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_a_regular_file_is_opened(tmp_path, caplog, name, kind):
    file = tmp_path / name
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    url = name.endswith(".db")
    named = {"drift_records": f"sqlite:///{file}" if url else file, "drift_query": "SELECT 1"}
    with pytest.raises(QueryRefused, match=r"RecordsError|DomainError"):
        node_records(context(**named))
    assert f"{file}: it is not a regular file" in caplog.text or "no Parquet" in caplog.text


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\n17,nurse\n", "age,job\n17,nurse\n".encode("utf-16"),
        "age,job\n17,nurse\n".encode("utf-16-le"), gzip.compress(b"age,job\n17,nurse\n"),
        b"PAR1\x15\x04\n", b"SQLite format 3\0\n", b"PK\x03\x04\n", b"\xe9ge,job\n17,nurse\n",
        b'"a\nge",job\n17,nurse\n', b"age,job,age\n17,nurse,2\n",
    ],
    ids=range(11),
)  # fmt: skip
def test_what_is_no_csv_by_its_header_is_refused_with_a_sentence(tmp_path, caplog, content):
    file = tmp_path / "rows.csv"
    file.write_bytes(content)
    with pytest.raises(QueryRefused, match="DomainError"):
        TABLE.encode(node_records(context(drift_records=file)))
    assert str(file) in caplog.text
    assert "header" in caplog.text or "'age'" in caplog.text
    assert "nurse" not in caplog.text


@pytest.mark.parametrize(
    ("records", "query", "said"),
    [
        (None, None, ["drift-records"]),
        ("rows.csv", None, ["absolute path"]),
        ("/nowhere/rows.csv", None, ["/nowhere/rows.csv", "[Errno 2]", "No such file"]),
        ("/nowhere/rows.xlsx", None, ["/nowhere/rows.xlsx", ".parquet"]),
        (
            "postgresql+psycopg://drift:SECRET@localhost:1/x?sslpassword=SECRET",
            "SELECT 1",
            ["postgresql+psycopg", "OperationalError"],
        ),
        ("postgresql+psycopg://drift:a@SECRET/b@localhost:1/x", "SELECT 1", ["postgresql"]),
        ("nonsense://drift:SECRET@localhost/x", "SELECT 1", ["nonsense", "export the rows"]),
        ("sqlite:SECRET://", "SELECT 1", ["drift-records"]),
        ("sqlite://", None, ["drift-query"]),
        ("sqlite:////FOLDER/rows.db", " ", ["drift-query"]),
        ("sqlite://", "SELECT 1", ["absolute path"]),
        ("sqlite:///rows.db", "SELECT 1", ["absolute path"]),
        ("sqlite:////FOLDER/rows.db", "SELECT SECRET", ["rows.db", "OperationalError (SQLITE_"]),
        ("sqlite:////FOLDER/rows.db", "SELECT 1 AS a, 2 AS a", ["rows.db", "'a'"]),
    ],
)
def test_the_log_says_where_and_why_and_no_secret(places, records, query, said, caplog):
    folder = Path(places["csv"]["drift_records"]).parent
    if records is not None:
        records = records.replace("/FOLDER", str(folder))
    config = {"drift_records": records, "drift_query": query}
    named = {key: value for key, value in config.items() if value is not None}
    with caplog.at_level(logging.DEBUG), pytest.raises(QueryRefused) as caught:
        node_records(context(**named))
    assert caught.value.__suppress_context__
    assert "SECRET" not in caplog.text + str(caught.value)
    assert "/rows" not in str(caught.value)
    for words in said:
        assert words in caplog.text


def test_the_server_learns_the_kind_of_error_alone(tmp_path, caplog):
    app = ClientApp()
    answer_drift_queries(app, node_records, TABLE)
    grid = InProcessGrid(app, 4)
    for node in grid.contexts.values():
        node.node_config["drift-records"] = str(tmp_path / "gone.csv")
    with pytest.raises(CheckFailed) as failure:
        KLDrift(uniform(), Trusted(1.0)).check(grid)
    assert "cannot be loaded (FileNotFoundError)" in str(failure.value)
    assert "gone.csv" not in str(failure.value)
    assert "gone.csv: [Errno 2] No such file" in caplog.text


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
    report = Statistics(TABLE, Trusted(2.0, 1e-6)).ask(grid)
    reference = report.as_reference(TABLE)
    assert reference.domain == TABLE
    assert reference.columns["job"].probabilities[:2] == pytest.approx([0.8, 0.2], abs=0.05)
    assert reference.columns["at"].unlisted["missing"] > 0.9
    assert report.cohort.survivors == 20
    checked = KLDrift(reference, Trusted(2.0, 1e-6)).check(grid)
    assert checked.columns.keys() == {"age", "job", "at"}


def uniform():
    return Reference.from_counts(TABLE, {n: [1] * d.size for n, d in TABLE.columns.items()})


class Ray:
    @staticmethod
    def is_initialized() -> bool:
        return True


@pytest.fixture
def ray(request, monkeypatch):
    """Ray as a node finds it: it runs, as in a simulation, or what a test is parametrized with."""
    found = getattr(request, "param", Ray)
    monkeypatch.setitem(sys.modules, "ray", found)
    return found


def simulated(sample, number=0, nodes=2, **config) -> Context:
    own = {"partition-id": number, "num-partitions": nodes, **config}
    return Context(0, 1, own, RecordDict(), {"drift-sample": str(sample)})


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("source", ["csv", "parquet"])
def test_simulated_nodes_share_out_the_sample(places, source):
    (file,) = places[source].values()
    parts = [TABLE.encode(node_records(simulated(file, i, 3))).tolist() for i in range(3)]
    every = TABLE.encode(ROWS).tolist()
    assert parts == [every[i::3] for i in range(3)]


@pytest.mark.parametrize("ray", [None, Ray], indirect=True)
def test_a_real_node_reads_no_file_that_the_server_names(places, caplog, ray):
    own = {"drift-records": str(places["csv"]["drift_records"])} if ray else {}
    with pytest.raises(QueryRefused, match="drift-sample"):
        node_records(simulated(places["csv"]["drift_records"], **own))
    nowhere = Context(0, 1, {}, RecordDict(), {"drift-sample": "/etc/rows.csv"})
    with pytest.raises(QueryRefused, match="real"):
        node_records(nowhere)
    assert "run it with drift-sample = ''" in caplog.text


def test_a_server_is_told_that_its_run_names_a_sample():
    app = ClientApp()
    answer_drift_queries(app, node_records, TABLE)
    grid = InProcessGrid(app, 4)
    for node in grid.contexts.values():
        node.run_config["drift-sample"] = "/srv/sample.csv"
    with pytest.raises(CheckFailed, match="drift-sample"):
        KLDrift(uniform(), Trusted(1.0)).check(grid)


@pytest.mark.usefixtures("ray")
def test_a_sample_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(QueryRefused, match="FileNotFoundError"):
        node_records(simulated(tmp_path / "gone.csv"))


def test_a_simulation_is_refused_before_a_nodes_guard_spends_for_it(places):
    own = {"drift-records": str(places["csv"]["drift_records"]), "drift-guard": "/not/read.toml"}
    with pytest.raises(QueryRefused, match="real"):
        Gate(simulated("/srv/sample.csv", **own), None)  # no question is read
