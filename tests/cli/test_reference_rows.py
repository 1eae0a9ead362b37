"""How many records the thresholds need: said wherever a reference is made, or relied on."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from cli.place import Place

from flwr_kld import Reference, Table

WIDE, NARROW = [f"town {i}" for i in range(60)], ["yes", "no"]


def rows(number: int) -> pl.DataFrame:
    """Return rows of a column with many values, and of one with two."""
    rng = np.random.default_rng(0)
    return pl.DataFrame({"town": rng.choice(WIDE, number), "smoker": rng.choice(NARROW, number)})


def reference(number: int) -> Reference:
    return Reference.from_frame(Table({"town": WIDE, "smoker": NARROW}), rows(number))


@pytest.fixture
def built(cli, tmp_path):
    """Build a reference of so many rows, and return what is said, and what programs are told."""

    def run(number: int, *options: object) -> tuple[str, dict]:
        rows(number).write_csv(tmp_path / "rows.csv")
        done = cli("reference", "build", tmp_path / "rows.csv", "--labels", 60, "--json", *options)
        assert done.exit_code == 0, done.output
        return done.stderr, json.loads(done.stdout)

    return run


def test_build_names_the_column_that_needs_most(built):
    few, told = built(900)
    assert told["records"] == 900
    needed = told["records_needed"]
    assert list(needed) == ["town", "smoker"]
    assert needed["town"] > needed["smoker"] > 900
    assert f"too few for the thresholds of 2 of 2 columns: town needs about {needed['town']:,}" in (
        " ".join(few.split())
    )
    many, told = built(needed["town"] * 2)
    assert told["records_needed"]["town"] <= 2 * needed["town"]
    assert "enough for the thresholds of all columns: town needs most" in " ".join(many.split())


def test_as_many_rows_as_are_named_are_enough(built):
    needed = built(900)[1]["records_needed"]["town"]
    told = built(round(needed * 1.1))[1]  # of another draw, in which a few more towns are seen
    assert max(told["records_needed"].values()) <= told["records"]


def test_a_threshold_that_is_given_counts_unless_the_table_has_one(built, tmp_path, cli):
    strict, loose = (built(900, "--threshold", nats)[1]["records_needed"] for nats in (0.01, 0.5))
    assert strict["town"] < loose["town"]  # what is to be told is within half the same resolution
    table = tmp_path / "table.toml"
    rows(900).write_csv(tmp_path / "rows.csv")
    Table({"town": WIDE, "smoker": NARROW}, thresholds={"town": 0.5}).to_toml(table)
    done = cli(
        "reference", "build", tmp_path / "rows.csv", "--table", table, "--json", "--threshold", 0.01
    )
    assert json.loads(done.stdout)["records_needed"] == {
        "town": loose["town"],
        "smoker": strict["smoker"],
    }


@pytest.mark.usefixtures("two_cohorts")
@pytest.mark.parametrize(("number", "words"), [(400, "too few"), (40_000, "enough")])
def test_plan_says_it_once_and_of_each_column(cli, tmp_path, number, words):
    reference(number).save(tmp_path / "r.json")
    typed = ("plan", tmp_path / "r.json", "--clients", 40, "--records", 300, "--threshold", 0.05)
    done = cli(*typed)
    assert done.exit_code == 0, done.output
    assert " ".join(done.stdout.split()).count(f"its {number:,} records are {words}") == 1
    told = json.loads(cli(*typed, "--json").stdout)
    assert {row["column"]: row["reference_records"] > number for row in told} == {
        "town": words == "too few",
        "smoker": words == "too few",
    }


@pytest.mark.parametrize(("number", "mark"), [(400, "warn"), (40_000, "ok")])
def test_doctor_says_what_to_do(cli, place: Place, number, mark):
    file = place.app / "app" / "reference.json"
    reference(number).save(file)
    file.with_name("table.toml").unlink()
    (place.app / "deploy" / "guard.toml").unlink()
    found = json.loads(cli("doctor", place.app, "--json").stdout)
    (one,) = (f for f in found if f["what"] == "reference" and "records" in f["words"])
    assert one["state"].startswith(mark)
    assert ("flwr-kld reference build" in (one["next"] or "")) is (mark == "warn")


def test_doctor_reads_the_apps_own_threshold(cli, place: Place):
    """Where the table says none, the strategy's counts. (An even reference is a made-up one.)"""
    file = place.app / "app" / "reference.json"
    table = Table({"smoker": NARROW, "nurse": NARROW})
    Reference.from_counts(table, {"smoker": [520, 480], "nurse": [480, 520]}).save(file)
    file.with_name("table.toml").unlink()
    (place.app / "deploy" / "guard.toml").unlink()

    def state() -> str:
        found = json.loads(cli("doctor", place.app, "--json").stdout)
        (one,) = (f for f in found if f["what"] == "reference" and "records" in f["words"])
        return str(one["state"])

    assert state() == "warning"
    place.change("app/app/server_app.py", "cohort=", "threshold=0.001, cohort=")
    assert state() == "ok"


@pytest.mark.parametrize("command", [("init",), ("reference", "build")])
def test_a_blind_column_is_refused_unless_it_is_meant(cli, tmp_path, command, here):
    rows(500).write_csv("rows.csv")
    Table({"town": ["Town 1"], "smoker": NARROW}).to_toml("own.toml")
    more = ("--out", "app" if command == ("init",) else "made.json", "--table", "own.toml")
    done = cli(*command, "rows.csv", *more)
    assert done.exit_code == 4
    assert "'town'" in done.stderr
    assert "--allow-unlisted" in " ".join(done.stderr.split())
    assert cli(*command, "rows.csv", *more, "--allow-unlisted").exit_code == 0
