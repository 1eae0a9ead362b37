"""``flwr-kld plan``: the planner's rows, as a table, as JSON and as files."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from chance import gaussian_delta
from flwr.clientapp import ClientApp

from flwr_kld import Labels, Reference, Table
from flwr_kld.clients import answer_drift_queries
from flwr_kld.ledger import Charge, Cost, Kind, Ledger
from flwr_kld.planner import Setting, forecast
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted, UniformCohort

REFERENCE = Reference.from_counts(Labels(["bus", "car", "train"]), [5, 3, 2])


pytestmark = pytest.mark.usefixtures("two_cohorts")


@pytest.fixture
def file(tmp_path):
    REFERENCE.save(tmp_path / "reference.json")
    return tmp_path / "reference.json"


def test_rows_are_the_planners(cli, file):
    done = cli(
        "plan", file, "--clients", 40, "--clients", 80, "--records", 60, "--epsilon", 0.5,
        "--threshold", 0.02, "--among", 400, "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [(r["clients"], r["epsilon"], r["records"]) for r in rows] == [
        (40, 0.5, 60),
        (80, 0.5, 60),
    ]
    setting = Setting(clients=40, records=60, trust=Trusted(0.5), threshold=0.02, population=400)
    assert rows[0] == json.loads(json.dumps(forecast(REFERENCE, setting).to_dict()))


def test_a_table(cli, file):
    arguments = ("plan", file, "--clients", 1200, "--records", 10)
    done = cli(*arguments)
    assert done.exit_code == 0, done.output
    assert "1,200" in done.stdout
    assert "every check pays" not in done.stdout
    assert "every check pays" in cli(*arguments, "--trust", "secure-sum").stdout


def test_each_column_of_a_table_has_a_row(cli, tmp_path):
    names = ["way", "which hand the driver writes with [b]"]
    table = Table({names[0]: ["bus", "car"], names[1]: ["left", "right"]})
    reference = Reference.from_counts(table, {names[0]: [5, 3], names[1]: [1, 9]})
    reference.save(tmp_path / "table.json")
    arguments = ("plan", tmp_path / "table.json", "--clients", 40, "--records", 60)
    done = cli(*arguments)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(line.startswith(f"{name} ") for line in lines) for name in names)
    rows = json.loads(cli(*arguments, "--json").stdout)
    assert {row["column"] for row in rows} == {*names}
    assert len({row["noise"] for row in rows}) == 1


def test_thresholds_of_the_reference_are_those_of_the_plan(cli, tmp_path):
    names = {"way": ["bus", "car"], "hand": ["left", "right"]}
    table = Table(names, thresholds={"way": 0.2})
    reference = Reference.from_counts(table, {name: [0.6, 0.4] for name in names})
    reference.save(tmp_path / "table.json")
    arguments = ("plan", tmp_path / "table.json", "--clients", 40, "--records", 60)

    done = cli(*arguments, "--threshold", 0.01, "--json")
    assert done.exit_code == 0, done.output
    rows = {row["column"]: row for row in json.loads(done.stdout)}
    assert {name: row["threshold"] for name, row in rows.items()} == {"way": 0.2, "hand": 0.01}
    assert rows["way"]["smallest"] > 0.2 > rows["hand"]["smallest"]
    lines = cli(*arguments, "--threshold", 0.01).stdout.splitlines()
    assert any(line.split()[:2] == ["way", "0.2"] for line in lines)


def test_thresholds_of_a_data_dictionary_are_tried(cli, tmp_path):
    table = Table({"way": ["bus", "car"]}, thresholds={"way": 0.2})
    Reference.from_counts(table, {"way": [0.6, 0.4]}).save(tmp_path / "table.json")
    replace(table, thresholds={"way": 0.01}).to_toml(tmp_path / "table.toml")
    done = cli("plan", tmp_path / "table.json", "--table", tmp_path / "table.toml",
               "--clients", 40, "--records", 60, "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert [row["threshold"] for row in json.loads(done.stdout)] == [0.01]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--clients", 40], "--records"),
        (["--clients", 40, "--records", 0], "records must be a number in (0, 2147483647]"),
        (
            ["--clients", 10**7, "--records", 9, "--trust", "secure-sum"],
            "from 2 to 1,000,000, got 10000000",
        ),
        (["--clients", 40, "--records", 9, "--trust", "blind"], "blind"),
        (["--clients", 40, "--records", 9, "--threshold", 4.7], "would find nothing"),
        (
            ["--clients", 40, "--records", 9, "--standing", "--trust", "distributed"],
            "secure sums have no standing session",
        ),
        (
            ["--clients", 4, "--records", 9, "--standing", "--schedule", "every 1h"],
            "--standing: 8,737 checks a year",
        ),
        (["--clients", 40, "--records", 9, "--schedule", "weekly"], "'weekly' is not a cron"),
        (["--clients", 40, "--records", 9, "--training", 400, 0], "noise_multiplier must be"),
    ],
)
def test_mistakes_are_explained(cli, file, arguments, why):
    done = cli("plan", file, *arguments)
    assert done.exit_code == 4
    assert why in done.stderr
    assert "Traceback" not in done.output


@pytest.fixture
def checked(url):
    """A ledger with a check of 60 clients, drawn from more."""
    app = ClientApp()
    trips = np.repeat(["bus", "car", "train"], [20, 12, 8])
    answer_drift_queries(app, lambda context: trips, REFERENCE.domain)
    monitor = KLDrift(
        REFERENCE, Trusted(0.5, 1e-6), threshold=0.05, cohort=UniformCohort(60), ledger=url
    )
    return monitor.check(InProcessGrid(app, 80), key="monday")


def test_a_plan_like_the_last_check_says_what_it_assumes(cli, file, url, checked, tmp_path):
    (tmp_path / "report.json").write_text(checked.to_json())
    typed = ("plan", file, "--threshold", 0.05, "--json")
    found = [cli(*typed, "--like", place) for place in (url, tmp_path / "report.json")]
    for done in found:
        assert done.exit_code == 0, done.output
        said = " ".join(done.stderr.split())
        assert "assumed: as in the check monday of" in said
        assert "60 clients of about 40 records" in said
    assert found[0].stdout == found[1].stdout
    (row,) = json.loads(found[0].stdout)
    counts = checked.columns["labels"].counts
    assert (row["clients"], row["records"]) == (60, 40)
    assert row["design_effect"] == counts.design_effect
    assert (row["epsilon"], row["delta"]) == (0.5, 1e-6)
    own = json.loads(cli(*typed, "--like", url, "--clients", 80, "--epsilon", 2).stdout)[0]
    assert (own["clients"], own["epsilon"], own["delta"]) == (80, 2, 1e-6)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no.json", "there is no file no.json"),
        ("sqlite:///no.db", "there is no ledger no.db"),
        ("{url}", "has no check of population 'default'"),
        ("{url}#wards", "has no check of population 'wards'"),
    ],
)
def test_a_check_that_is_not_there(cli, file, url, place, why):
    done = cli("plan", file, "--like", place.format(url=url))
    assert done.exit_code == 4
    assert why in " ".join(done.stderr.split())


@pytest.mark.parametrize(("schedule", "checks"), [("0 3 * * *", 365), ("0 3 * * 1", 53)])
def test_the_checks_of_a_schedule_are_one_standing_session(cli, file, schedule, checks):
    typed = ("plan", file, "--clients", 3, "--records", 900, "--delta", 1e-6, "--json")
    (row,) = json.loads(cli(*typed, "--schedule", schedule, "--standing").stdout)
    bare = ("plan", file, "--clients", 3, "--records", 900, "--json", "--standing")
    assert json.loads(cli(*bare, "--schedule", schedule).stdout) == [row]  # delta is 1e-6 already
    assert (row["checks"], row["checks_per_person"]) == (checks, checks)
    assert row["epsilon_per_year"] == 1
    (each,) = json.loads(cli(*typed, "--schedule", schedule).stdout)
    assert each["epsilon_per_year"] > 10
    assert each["noise"] < row["noise"]


def test_a_year_of_rarer_checks_costs_less(cli, file):
    typed = ("plan", file, "--clients", 40, "--records", 60, "--epsilon", 0.1, "--json")
    found = [
        json.loads(cli(*typed, *when).stdout)[0]["epsilon_per_year"]
        for when in ([], ["--schedule", "0 3 * * 1"], ["--schedule", "0 3 1 * *"])
    ]
    daily, weekly, monthly = found
    assert daily > 2 * weekly > 4 * monthly
    assert monthly <= 12 * 0.1


def test_rounds_of_training_are_planned_beside_checks(cli, file):
    typed = ("plan", file, "--clients", 40, "--records", 60)
    (row,) = json.loads(cli(*typed, "--training", 400, 40, "--json").stdout)
    mu = math.sqrt(400) / (40 / 2)  # of a record, all rounds as one Gaussian
    assert gaussian_delta(mu, row["epsilon_of_training"]) <= 1e-6
    assert gaussian_delta(mu, 0.999 * row["epsilon_of_training"]) > 1e-6
    both = row["epsilon_with_training"]
    most = row["epsilon_per_year"] + row["epsilon_of_training"]
    assert max(row["epsilon_per_year"], row["epsilon_of_training"]) < both <= most
    (bare,) = json.loads(cli(*typed, "--json").stdout)
    assert bare["epsilon_of_training"] == 0
    assert bare["epsilon_with_training"] == bare["epsilon_per_year"] == row["epsilon_per_year"]
    shown = cli(*typed, "--training", 400, 40, COLUMNS="200").stdout
    assert (
        f"400 rounds of training a year at noise multiplier 40: ε {row['epsilon_of_training']:.3g}"
        in shown
    )


def test_a_plan_like_a_ledgers_check_shows_what_both_kinds_spent(cli, file, url, checked):
    ledger = Ledger(url)
    cost = Cost.gaussian(500.0, 1e-9, "record")
    ledger.settle(ledger.reserve("r", Charge(cost, ["a"]), kind=Kind.TRAINING), {"round": 1})
    shown = cli("plan", file, "--like", url, COLUMNS="200").stdout
    checks, training = (one for one in shown.splitlines() if "spent by themselves" in one)
    assert checks.startswith("checks: ")
    assert re.search(r"training: 0\.\d+ nats spent by themselves, 0\.\d+ nats left", training)


def test_two_aggregators_add_noise_twice_and_are_those_of_a_check(cli, file, checked, tmp_path):
    asked = ("plan", file, "--clients", 40, "--records", 60, "--json")
    trusts = ("trusted", "two-aggregators")
    one, two = (json.loads(cli(*asked, "--trust", who).stdout)[0] for who in trusts)
    assert two["noise"] > 1.3 * one["noise"]  # less than √2: nothing is spent on alike records
    through = replace(checked, protection=replace(checked.protection, trust="two-aggregators"))
    (tmp_path / "report.json").write_text(through.to_json())
    (like,) = json.loads(cli("plan", file, "--like", tmp_path / "report.json", "--json").stdout)
    assert like["trust"] == "two-aggregators"
