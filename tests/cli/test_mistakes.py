"""What people get wrong, and the next thing to do that each message names; nothing is spent."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli.apps import TRAINING, write_app
from cli.place import Place, Typed, answered, elsewhere, without_budget

from flwr_kld.cli.flower_app import same_database
from flwr_kld.ledger import Ledger
from flwr_kld.ledger.schema import ledger_version


def other(p: Place) -> list[object]:
    with closing(sqlite3.connect(p.app / "drift.db")) as database:
        database.execute(f"UPDATE {ledger_version.name} SET version_num = '9999'")
        database.commit()
    return p.check()


def key_of(p: Place, name: str, content: bytes, mode: int) -> list[object]:
    file = p.write(name, content)
    file.chmod(mode)
    return ["keys", "make", file]


def plan_of(p: Place, *options: object) -> list[object]:
    return ["plan", p.app / "app" / "reference.json", "--clients", 4, "--records", 90, *options]


MISTAKES: dict[str, tuple[Typed, str]] = {
    # name: (what is typed, what must be said: the cause, and what to run or do next)
    "check: wrong path": (
        lambda p: ["check", p.folder / "no", "--ledger", p.ledger, "--key", "a"],
        r"not a Flower app.*flwr-kld init",
    ),
    "check: no ledger there": (
        lambda p: p.check(ledger=f"sqlite:///{p.folder}/no.db"),
        r"there is no ledger .*no\.db: give --ledger.*flwr-kld budget --set",
    ),
    "check: another ledger than the app's": (
        lambda p: p.check(ledger=elsewhere(p)),
        r"the app writes the ledger .*app/drift\.db.*give --ledger sqlite.*nothing was asked",
    ),
    "check: the default ledger, not the app's": (
        lambda p: ["check", p.app, "--key", "a", "--ledger", elsewhere(p)],
        r"give --ledger sqlite.*nothing was asked",
    ),
    "check: a simulation's population": (
        lambda p: ["check", p.app, "--key", "a", "--ledger", p.ledger],
        r"--run-config 'drift-sample=\"\"' for a deployment, or --population simulated",
    ),
    "check: no budget": (
        lambda p: p.check(ledger=without_budget(p)),
        r"has no budget: set one with flwr-kld budget --set",
    ),
    "check: a run config that is none": (
        lambda p: p.check("--run-config", "drift-sample"),
        r"'drift-sample' is not key=value",
    ),
    "describe: a table that is none": (
        lambda p: ["describe", p.app, "--key", "a", "--table", p.folder / "sample.csv"],
        r"\.toml.*sample\.csv",
    ),
    "describe: one file for two": (
        lambda p: [
            "describe", p.app, "--key", "a", "--save", "a.json",
            "--reference", Path.cwd() / "a.json",
        ],
        r"a\.json.*each",
    ),
    "doctor: an app and records": (
        lambda p: ["doctor", p.app, "--data", p.folder / "sample.csv"],
        r"--data goes with --table, and without an app",
    ),
    "doctor: nothing": (lambda p: ["doctor"], r"name the folder of an app, or a node's records"),
    "doctor: a query of a file": (
        lambda p: [
            "doctor", "--data", p.folder / "sample.csv", "--table", p.app / "app" / "table.toml",
            "--query", "SELECT 1",
        ],
        r"--query is of a database",
    ),
    "init: epsilon of no app": (
        lambda p: ["init", p.folder / "sample.csv", "--epsilon", 2],
        r"--epsilon .*--out or --into",
    ),
    "init: yes to nothing": (lambda p: p.init("--yes"), "--yes"),
    "init: an aggregator of no model": (
        lambda p: p.init("--aggregator", "ab" * 32), "--aggregator",
    ),
    "init: a threshold that no column takes": (
        lambda p: p.init("--table", p.app / "app" / "table.toml", "--threshold", 0.2),
        "--threshold .*table",
    ),
    "init: unlisted values of no rows": (
        lambda p: ["init", p.app / "app" / "table.toml", "--out", p.folder / "new",
                   "--allow-unlisted"],
        "--allow-unlisted",
    ),
    "doctor: a ledger of records": (
        lambda p: ["doctor", "--data", p.folder / "sample.csv", "--table",
                   p.app / "app" / "table.toml", "--ledger", p.ledger],
        "--ledger .*--data",
    ),
    "watch: an address without a port": (
        lambda p: ["watch", p.app, "--schedule", "every 6h", "--ledger", p.ledger,
                   "--metrics-address", "0.0.0.0"],
        "--metrics-address .*--metrics-port",
    ),
    "report: the last of one": (
        lambda p: ["report", p.folder / "a.json", "--ledger", p.ledger, "--key", "a", "--last", 3],
        "--last .*--key",
    ),
    "plan: a threshold that no column takes": (
        lambda p: plan_of(p, "--threshold", 0.2), "--threshold .*--table",
    ),
    "plan: distributed noise without delta": (
        lambda p: plan_of(p, "--trust", "distributed", "--delta", 0), "--delta",
    ),
    "reference: a threshold that no column takes": (
        lambda p: ["reference", "build", p.folder / "sample.csv", "--threshold", 0.2,
                   "--table", p.app / "app" / "table.toml", "--out", p.folder / "r.json"],
        "--threshold .*table",
    ),
    "simulate: records of real writers": (
        lambda p: ["simulate", "--writers", 0, "--records", 9], "--records",
    ),
    "simulate: a drift after the last check": (
        lambda p: ["simulate", "--checks", 3, "--drift-from", 4], "--drift-from",
    ),
    "check: zone of no schedule": (
        lambda p: p.check("--zone", "Europe/Berlin"),
        r"--zone .*--schedule",
    ),
    "check: key and schedule": (
        lambda p: p.check("--schedule", "0 3 * * *"),
        r"give --key or --schedule, not both",
    ),
    "check: another version's ledger": (other, r"use the version that made it"),
    "watch: not an app": (
        lambda p: ["watch", p.folder, "--schedule", "every 6h", "--ledger", p.ledger],
        r"not a Flower app",
    ),
    "budget: a folder that is not there": (
        lambda p: ["budget", "--ledger", "sqlite:////nowhere/drift.db", "--set", 1],
        r"next: make its folder",
    ),
    "budget: terms of none": (
        lambda p: ["budget", "--ledger", p.ledger, "--days", 7],
        r"nothing was set: .* go with .*--set",
    ),
    "report: no ledger": (
        lambda p: ["report", "--ledger", f"sqlite:///{p.folder}/no.db"],
        r"give --ledger",
    ),
    "plan: not a reference": (
        lambda p: ["plan", p.folder / "sample.csv", "--clients", 4, "--records", 9],
        r"not a flwr-kld reference file",
    ),
    "reference: a folder": (
        lambda p: ["reference", "show", p.folder],
        r" is a folder: name a file",
    ),
    "init: no file": (
        lambda p: ["init", p.folder / "no.csv", "--out", p.folder / "new"],
        r"there is no file .*: give public rows, .*\.parquet",
    ),
    "init: no such column": (lambda p: p.init("--column", "agee"), r"no column 'agee'.*give"),
    "init: id": (lambda p: p.init("--id", "nr"), r"--id names one of its columns"),
    "keys: no folder": (
        lambda p: ["keys", "make", p.folder / "no" / "node.key"],
        r"there is no folder .*install -d -m 700",
    ),
    "keys: not a key": (
        lambda p: key_of(p, "short.key", b"x", 0o600),
        r"does not hold 32 bytes; or give another FILE",
    ),
    "keys: roster": (
        lambda p: ["keys", "roster", p.folder / "r.json", "clinic-a"],
        r"not NAME=PUBLIC: flwr-kld keys make",
    ),
    "keys: full disk": (
        lambda p: ["keys", "roster", "/dev/full", f"a={'0' * 64}"],
        r"no space is left on the disk: free some, and run the same command again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do_and_nothing_is_spent(cli, flwr, place, mistake):
    typed, words = MISTAKES[mistake]
    answered(cli, flwr, typed(place), words)


def test_a_connection_that_flwr_does_not_know_leads_to_the_doctor(cli, flwr, place):
    flwr.will("misconnect")
    done = cli(*place.check())
    assert done.exit_code == 4
    assert "There is no connection 'prod'; next: flwr-kld doctor APP CONNECTION" in done.stdout
    assert Ledger(place.ledger).spent().epsilon == 0


def test_a_ledger_that_the_code_names_is_compared_where_it_is_on_this_machine(cli, flwr, place):
    """As in the recipe for a deployment, whose app names its ledger in Python."""
    url = elsewhere(place)
    app = write_app(place.folder / "recipe", "sklearnexample", TRAINING)
    server = app / "sklearnexample" / "server_app.py"
    text = server.read_text()
    server.write_text(text + f'LEDGER = "{url}"\nKLDrift(ledger=LEDGER)\n')
    done = cli("check", app, "--key", "a", "--ledger", place.ledger)
    assert done.exit_code == 4
    assert f"give --ledger {url}; nothing was asked" in done.stdout
    assert flwr.calls == []
    (place.folder / "other.db").unlink()  # as if it were in another container
    assert "the app writes" not in cli("check", app, "--key", "a", "--ledger", place.ledger).stdout


@pytest.mark.parametrize(
    ("of_app", "own", "same"),
    [
        ("sqlite:///drift.db", "sqlite:////srv/drift.db", True),
        ("sqlite:////not/here.db", "sqlite:////srv/drift.db", True),
        ("postgresql://db/drift", "postgresql://localhost:6432/drift", True),
        ("postgresql://db/drift", "postgresql://db/other", False),
        ("postgresql://db/drift", "sqlite:///drift.db", False),
    ],
)
def test_only_what_is_surely_another_database_is_refused(of_app, own, same):
    assert same_database(of_app, own) is same
