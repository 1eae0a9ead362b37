"""``flwr-kld init`` where nothing but a table's schema is public."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from patience import HANGS

from flwr_kld import Binned, Labels, Reference, Times
from flwr_kld.accounting import Kind, Ledger
from flwr_kld.accounting.kept_reference import kept_reference
from flwr_kld.cli.sample import read_schema
from flwr_kld.guard.limits import read_limits
from flwr_kld.report import Outcome
from flwr_kld.report.entries import report_of
from flwr_kld.simulations.local_superlink import local_superlink

COLUMNS = [
    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}},
    {"name": "weight", "type": "number", "constraints": {"minimum": 2, "maximum": 250}},
    {"name": "ward", "type": "string", "constraints": {"enum": ["surgery", "children"]}},
    {"name": "grade", "type": "integer", "constraints": {"enum": [1, 2, 3]}},
    {"name": "urgent", "type": "boolean"},
    {"name": "born", "type": "date", "constraints": {"minimum": "1900-01-01"}},
    {"name": "admitted", "type": "datetime"},
    {"name": "diagnosis", "type": "string"},
    {"name": "income", "type": "number", "constraints": {"minimum": 0}},
    {"name": "back", "type": "number", "constraints": {"minimum": 1, "maximum": 0}},
    {"name": "from", "type": "number", "constraints": {"minimum": "a", "maximum": "b"}},
    {"name": "place", "type": "geopoint"},
]
LEFT_OUT = {"diagnosis", "back", "from", "place"}


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    file = tmp_path / "visits.json"
    file.write_text(json.dumps({"fields": COLUMNS}))
    return file


def test_each_column_has_the_domain_that_the_schema_tells(schema):
    table, _ = read_schema(schema, bins=20)
    assert set(table.left_out) == LEFT_OUT
    assert "enum" in table.left_out["diagnosis"]
    assert "maximum" in table.left_out["back"]
    kinds = {name: type(domain) for name, domain in table.features.items()}
    assert kinds == {
        "age": Binned, "weight": Binned, "ward": Labels, "grade": Labels, "urgent": Labels,
        "born": Times, "admitted": Times, "income": Binned,
    }  # fmt: skip
    assert table.features["income"].edges[0] == 0
    assert table.features["income"].edges[-1] > 1e12
    assert len(table.features["weight"].edges) == 19
    assert np.ptp(np.diff(table.features["weight"].edges)) < 1e-9


def test_a_made_up_row_is_in_each_bin(schema):
    table, rows = read_schema(schema, bins=20)
    for name, own in table.features.items():
        held = np.bincount(own.encode(rows[name]), minlength=own.size)
        assert (held[: own.size - len(own.unlisted)] > 0).all(), name


@pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 5), (0, 110), (-3, 40), (7, 26)])
def test_no_whole_number_lies_on_an_edge(tmp_path, low, high):
    file = tmp_path / "s.json"
    limits = {"minimum": low, "maximum": high}
    file.write_text(
        json.dumps({"fields": [{"name": "n", "type": "integer", "constraints": limits}]})
    )
    domain = read_schema(file, bins=20)[0].features["n"]
    used = np.bincount(domain.encode(np.arange(low, high + 1)), minlength=domain.size)
    assert (used[:-1] > 0).all()  # every bin has a number
    assert used[:-1].max() <= -(-(high - low + 1) // 20) + 1
    assert used[-1] == 0


def test_made_up_rows_are_even_over_every_column(schema):
    table, rows = read_schema(schema, bins=20)
    reference = Reference.from_frame(table, rows)
    for column, alone in reference.columns.items():
        size = alone.domain.size - (1 if isinstance(alone.domain, Binned | Times) else 2)
        law = alone.probabilities
        assert np.count_nonzero(law > 0.5 / size) == size, column
        assert law[:size].max() < 1.1 / size


def test_an_app_in_which_clients_make_the_reference(cli, schema, tmp_path):
    done = cli("init", schema, "--out", tmp_path / "app")
    assert done.exit_code == 0, done.output
    assert "made up" in done.stderr
    assert "left out: diagnosis" in done.stderr
    assert "reference build" in done.stdout
    app = tmp_path / "app"
    server = (app / "app" / "server_app.py").read_text()
    assert "Statistics(" in server
    assert "reference=" not in (app / "app" / "client_app.py").read_text()
    assert server.count("epsilon=0.5") == 2  # a person's window has 1: half each
    config = tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert (config["drift-statistics"], config["drift-check"]) == ("", "")
    assert Path(config["drift-sample"]).is_file()
    limits = read_limits(app / "deploy" / "guard.toml")
    assert limits.references is None  # the real one is not known yet
    assert limits.domains == {Reference.load(app / "app" / "reference.json").domain.fingerprint}
    assert Ledger(config["drift-ledger"]).budget().epsilon == 1
    shape = [Path(sys.executable).with_name("ruff"), "format", "--isolated", "--check"]
    formatted = subprocess.run([*shape, "--line-length", "100", app], check=False)
    assert formatted.returncode == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "Table Schema"),
        ("{", "Table Schema"),
        ('{"fields": []}', "fields"),
        ('{"fields": [{"name": ""}]}', "name"),
        ('{"fields": [{"name": "a", "constraints": {"enum": []}}]}', "enum"),
        ('{"fields": [{"name": "a", "type": "any"}]}', "no column that can be checked"),
        ('{"fields": [{"name": "a", "type": "boolean"}, {"name": "a"}]}', "twice"),
        ('{"fields": [{"name": "a", "constraints": {"maximum": NaN}}]}', "maximum"),
    ],
)
def test_what_is_no_schema_is_refused(cli, tmp_path, text, words):
    (tmp_path / "s.json").write_text(text)
    done = cli("init", tmp_path / "s.json", "--out", tmp_path / "app")
    assert done.exit_code != 0
    assert words in done.output.replace("\n", " ")
    assert not (tmp_path / "app").exists()


def test_what_needs_rows_says_so(cli, schema, tmp_path):
    for options in (["--column", "age"], ["--id", "age"]):
        done = cli("init", schema, "--out", tmp_path / "app", *options)
        assert done.exit_code != 0
        assert "leave columns out of the schema" in done.output
    done = cli("init", schema, "--into", tmp_path)
    assert done.exit_code != 0
    assert "needs public rows" in done.output


@pytest.mark.slow
def test_clients_make_the_reference_and_are_then_compared_with_it(cli, schema, tmp_path):
    cli("init", schema, "--out", tmp_path / "app")
    with local_superlink(tmp_path / "superlink.log") as superlink:
        run = partial(
            subprocess.run,
            cwd=tmp_path / "app", env=superlink.environment, capture_output=True, text=True,
            timeout=HANGS, check=True,
        )  # fmt: skip
        flwr = Path(sys.executable).with_name("flwr")
        run([flwr, "run", ".", "--stream", "--run-config", 'drift-statistics="first"'])
        ledger = Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}")
        made = kept_reference(ledger, "first", population="simulated")
        made.save(tmp_path / "app" / "app" / "reference.json")
        run([flwr, "run", ".", "--stream"])
    entries = ledger.history("simulated")
    assert {entry.kind for entry in entries} == {Kind.REFERENCE, Kind.CHECK}
    (report,) = (report_of(entry) for entry in entries if entry.kind is Kind.CHECK)
    assert report.compared.reference == made.fingerprint
    assert report.outcome is not Outcome.DRIFT
