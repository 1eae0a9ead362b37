"""``flwr-kld init --period``: the app checks the rows that came since the last check."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from importlib import import_module
from pathlib import Path

import pytest
from cli.apps import TRAINING, write_app
from flwr.app import Context, RecordDict

from flwr_kld import Table
from flwr_kld.common.errors import CheckFailed
from flwr_kld.ledger import Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.entries import report_of
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import Period, SinceLastCheck

NODES = 4
ALL = ["--days", 1, "--schedule", "0 3 1 * *", "--epsilon", 20]
"""One check in any window: it asks for all rows of its period."""


def write(file: Path, ages: list[int], days: list[date]) -> Path:
    rows = (
        f"{nr},{age},{day:%d.%m.%Y}" for nr, (age, day) in enumerate(zip(ages, days, strict=True))
    )
    file.write_text("\n".join(["nr;age;visited", *rows, ""]).replace(",", ";"))
    return file


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    rng = random.Random(3)
    days = [date(2023, rng.randint(1, 12), rng.randint(1, 28)) for _ in range(600)]
    return write(tmp_path / "sample.csv", rng.choices(range(20, 60), k=600), days)


def test_nodes_are_asked_for_the_rows_of_the_days_since_the_last_check(
    cli, sample, tmp_path, monkeypatch, capsys
):
    app = tmp_path / "growing"
    done = cli("init", sample, "--out", app, "--id", "nr", "--period", "visited", *ALL)
    assert done.exit_code == 0, done.output
    monkeypatch.syspath_prepend(app)
    client, server = (import_module(f"growing.{one}_app") for one in ("client", "server"))
    following, now = SinceLastCheck.next, datetime(2024, 3, 10, 3, tzinfo=UTC)
    monkeypatch.setattr(SinceLastCheck, "next", lambda self, last: following(self, last, now))
    grid = InProcessGrid(client.app, NODES)
    for node, context in enumerate(grid.contexts.values()):
        # Their old rows are as the reference says; those of yesterday have drifted.
        ages = random.Random(node).choices(range(20, 60), k=900) + [90] * 300
        days = [date(2023, 1, 1)] * 900 + [date(2024, 3, 8)] * 300
        folder = tmp_path / f"node-{node}"
        folder.mkdir()
        limits = (app / "deploy" / "guard.toml").read_text()
        (folder / "guard.toml").write_text(limits.replace("/var/lib/flwr-kld", str(folder)))
        (folder / "reports").mkdir()
        context.node_config |= {
            "drift-records": str(write(folder / "rows.csv", ages, days)),
            "drift-guard": str(folder / "guard.toml"),
            "drift-reports": str(folder / "reports"),
        }
    url = f"sqlite:///{app / 'drift.db'}"
    config = {"drift-ledger": url, "drift-sample": "", "drift-nodes": NODES, "drift-check": "a"}
    context = Context(1, 1, {}, RecordDict(), config)
    server.main(grid, context)
    assert not capsys.readouterr().out  # flwr-kld check prints what it asked for, once
    context.run_config["drift-check"] = ""
    ledger = Ledger(url)
    (entry,) = ledger.history()
    report = report_of(entry)
    assert report.period == Period("visited", "2024-03-08", "2024-03-09")
    assert report.cohort.survivors == NODES
    assert report.columns["age"].outcome is Outcome.DRIFT
    assert max(report.columns["age"].histogram.clients) > 0.9
    for node in range(NODES):
        (returned,) = (tmp_path / f"node-{node}" / "reports").iterdir()
        assert Report.from_json(returned.read_text()).check == report.check
    spent = ledger.spent().epsilon
    with pytest.raises(CheckFailed, match="day"):
        server.main(grid, context)
    assert ledger.spent().epsilon == spent


def test_the_table_leaves_out_what_the_rows_of_a_day_have_in_common(cli, sample, tmp_path):
    done = cli("init", sample, "--out", tmp_path / "app", "--id", "nr", "--period", "visited")
    assert "(--id)" not in done.stderr  # no advice that was followed already
    assert done.exit_code == 0, done.output
    table = Table.from_toml(tmp_path / "app" / "app" / "table.toml")
    assert list(table.columns) == ["age"]
    assert {"visited: date", "visited: weekday"} <= table.left_out.keys()
    code = (tmp_path / "app" / "app" / "server_app.py").read_text()
    assert 'Period("visited", "2023-01-01", "2023-12-2' in code  # a simulation's: of the sample


def test_an_app_that_is_there_gets_the_period_too(cli, sample, tmp_path):
    app = write_app(tmp_path / "sklearnexample", "sklearnexample", TRAINING)
    done = cli("init", sample, "--into", app, "--yes", "--id", "nr", "--period", "visited")
    assert done.exit_code == 0, done.output
    code = (app / "sklearnexample" / "server_app.py").read_text()
    assert 'period=sampled if simulated else SinceLastCheck("visited")' in code
    compile(code, "server_app.py", "exec")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--period", "visited"], "--period needs --id"),
        (["--period", "seen", "--id", "nr"], "--period names one of its columns"),
        (["--period", "age", "--id", "nr"], "no dates in 'age'"),
    ],
)
def test_a_period_needs_dates_and_ids(cli, sample, tmp_path, options, words):
    done = cli("init", sample, "--out", tmp_path / "app", *options)
    assert done.exit_code == 4
    assert words in done.stderr
    assert not (tmp_path / "app").exists()
