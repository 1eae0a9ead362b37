"""``describe --discover``: the labels of a column that nobody listed, paid for once a key."""

from __future__ import annotations

import json
from functools import partial

import pytest
from report.samples import STATISTICS

from flwr_kld.ledger import Ledger
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel

FOUND = DiscoveryReport(
    started=STATISTICS.started, guarantee=STATISTICS.guarantee, cohort=STATISTICS.cohort,
    cost=STATISTICS.cost, protection=STATISTICS.protection, one_client=STATISTICS.one_client,
    reading=Discovered(
        "job", (FoundLabel("[b]aker", 120.0, 90.0, 150.0),), 28, 33
    ),
)  # fmt: skip
OPTIONS = ("--key", "names", "--discover", "job")


@pytest.fixture
def discover(cli, flower_app):
    return partial(cli, "describe", flower_app, "prod", COLUMNS="900")


def test_labels_are_named_and_shown_again_without_a_charge(discover, flwr, flower_app):
    flwr.will("name", FOUND.to_dict())
    done = discover(*OPTIONS)
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == str(FOUND).split()
    spent = Ledger(flwr.ledger).spent()
    again = discover(*OPTIONS)
    assert (again.exit_code, len(flwr.calls)) == (0, 1)
    assert "Already in the ledger" in again.stdout
    assert Ledger(flwr.ledger).spent() == spent
    (call,) = flwr.calls
    assert call == [
        "run", str(flower_app), "prod", "--stream",
        "--run-config", 'drift-column="job"', "--run-config", 'drift-discovery="names"',
    ]  # fmt: skip
    answer = json.loads(discover(*OPTIONS, "--json").stdout)
    assert DiscoveryReport.from_dict(answer["report"]) == FOUND
    assert (answer["exit_code"], answer["ran"]) == (0, False)


def test_another_column_under_the_same_key_is_an_error(discover, flwr):
    flwr.will("name", FOUND.to_dict())
    discover(*OPTIONS)
    other = discover("--key", "names", "--discover", "town")
    assert other.exit_code == 4
    assert "'job'" in other.stdout
    assert "baker" not in other.stdout


def test_a_name_that_no_run_config_holds_asks_nobody(discover, flwr):
    flwr.will("name", FOUND.to_dict())
    for column in ('jo"b', "jo\\b", "jo\nb"):
        assert discover("--key", "names", "--discover", column).exit_code == 4
    assert not flwr.calls


def test_labels_are_written_to_no_file(discover, flwr, tmp_path):
    assert discover(*OPTIONS, "--save", tmp_path / "labels.html").exit_code == 4
    assert not flwr.calls
