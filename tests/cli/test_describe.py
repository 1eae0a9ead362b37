"""``describe``: the whole report, paid for once a key."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from cli.apps import write_app
from report.samples import STATISTICS, decided

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger import Charge, Cost, Kind, Ledger
from flwr_kld.ledger.entry import Remembered
from flwr_kld.report import Outcome
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
from flwr_kld.report.statistics_report import StatisticsReport
from flwr_kld.report.stored_reference import reference_state
from flwr_kld.views import CheckSeries, Description

KEY = "2026-09"
MADE = Reference.from_counts(Labels(["bus", "car", "train"]), [3, 1, 3])
REPORT = replace(STATISTICS, reference=MADE.fingerprint)


def settle(
    url: str, key: str, report: dict, *states: Remembered, kind: Kind = Kind.STATISTICS
) -> None:
    ledger = Ledger(url)
    cost = Cost.claimed("discrete-laplace", Guarantee(0.1))
    reservation = ledger.reserve(key, Charge(cost, ["a"]), kind=kind)
    ledger.settle(reservation, report, states=states)


@pytest.fixture
def describe(cli, flower_app):
    """Run the command on a deployment."""
    return partial(cli, "describe", flower_app, "prod", COLUMNS="120")


def next_of(done) -> str:
    return " ".join(done.stdout.split()).partition("Next: ")[2].partition(" Privacy: ")[0]


def without_next(lines):
    """All lines but those from "Next" to "Privacy", where advice stands."""
    first = next(n for n, line in enumerate(lines) if line.startswith("Next: "))
    last = next(n for n, line in enumerate(lines) if line.startswith("Privacy: "))
    return lines[:first] + lines[last:]


def test_the_whole_report_is_printed(describe, flwr, flower_app):
    flwr.will("make", REPORT.to_dict())
    done = describe("--key", KEY)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == REPORT.summary
    assert REPORT.whom in lines[1]
    for name in REPORT.columns:
        assert any(name in line for line in lines[2:])
    assert f"--reference FILE keeps it as the reference {MADE.fingerprint[:12]}" in next_of(done)
    assert flwr.calls == [
        ["run", str(flower_app), "prod", "--stream", "--run-config", f'drift-statistics="{KEY}"']
    ]


def test_it_is_shown_again_without_a_charge_and_kept_as_a_reference(describe, flwr, tmp_path):
    flwr.will("make", REPORT.to_dict())
    first = describe("--key", KEY)
    spent = Ledger(flwr.ledger).spent()
    out = tmp_path / "reference.json"
    again = describe("--key", KEY, "--reference", out)
    assert (again.exit_code, len(flwr.calls)) == (0, 1)
    assert Ledger(flwr.ledger).spent() == spent
    head, stored, *rest = again.stdout.splitlines()
    assert "nobody was asked" in stored
    assert without_next([head, *rest]) == without_next(first.stdout.splitlines())
    assert Reference.load(out).fingerprint == MADE.fingerprint
    assert "7 records are too few" in again.stderr  # for the usual threshold


def test_what_is_advised_next_has_not_been_done_yet(describe, flwr, flower_app, tmp_path):
    out = tmp_path / ("longer-than-a-line-" * 8) / "reference.json"
    out.parent.mkdir()
    flwr.will("make", REPORT.to_dict())
    assert "--reference FILE keeps it" in next_of(describe("--key", KEY))
    done = next_of(describe("--key", KEY, "--reference", out))
    assert f"flwr-kld check {flower_app} prod" in done
    assert str(out) in done  # not broken, as long as it is
    assert "as_reference" not in done
    assert "--reference" not in done


@pytest.mark.parametrize(("listed", "blind"), [(9, True), (11, False)])
def test_a_reference_says_in_which_columns_it_is_blind(describe, flwr, listed, blind):
    counts = {"ward": [listed, 100 - listed, 0], "age": [50, 50, 0]}
    made = Reference.from_counts(Table({"ward": ["icu"], "age": Binned([40])}), counts)
    report = replace(REPORT, reference=made.fingerprint)
    settle(flwr.ledger, KEY, report.to_dict(), reference_state(made, KEY, "default"))
    done = describe("--key", KEY)
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    assert ("column 'ward' is blind: 91% of the records" in said) is blind
    assert "'age'" not in said
    assert ("list the values of ward" in next_of(done)) is blind


def test_of_an_app_that_trains_the_next_check_is_a_training(cli, flwr, tmp_path):
    text = "from flwr_kld.strategies import WithDriftChecks\n\n\napp = None\n"
    app = write_app(tmp_path / "own", "own", {"server_app": text, "client_app": "app = None\n"})
    with (app / "pyproject.toml").open("a") as project:
        project.write("drift-statistics = ''\n")
    flwr.will("make", REPORT.to_dict())
    out = tmp_path / "reference.json"
    done = cli("describe", app, "prod", "--ledger", flwr.ledger, "--key", KEY, "--reference", out)
    assert done.exit_code == 0, done.output
    assert f"flwr run {app} prod, once the app reads" in next_of(done)


def test_a_page_of_it_advises_what_the_terminal_advises(describe, flwr, tmp_path):
    flwr.will("make", REPORT.to_dict())
    page = tmp_path / "d.html"
    done = describe("--key", KEY, "--save", page)
    assert done.exit_code == 0, done.output
    assert f"<strong>Next:</strong> {next_of(done)}" in page.read_text()


def test_it_is_saved_and_a_wrong_form_asks_nobody(describe, flwr, tmp_path):
    flwr.will("make", REPORT.to_dict())
    assert describe("--key", KEY, "--save", tmp_path / "d.doc").exit_code == 4
    assert not flwr.calls
    done = describe("--key", KEY, "--save", tmp_path / "d.csv")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "d.csv").read_bytes().decode() == Description(REPORT).to_csv()


def test_json_has_the_report(describe, flwr, tmp_path):
    flwr.will("make", REPORT.to_dict())
    answer = json.loads(describe("--key", KEY, "--json").stdout)
    assert (answer["outcome"], answer["file"], answer["ran"]) == ("made", None, True)
    assert StatisticsReport.from_dict(answer["report"]) == REPORT
    out = tmp_path / "r.json"
    assert json.loads(describe("--key", KEY, "--json", "--reference", out).stdout)["file"] == str(
        out
    )


@pytest.mark.parametrize(
    ("does", "code", "why"),
    [
        ("fail", 3, "nothing was released: 3 clients answered"),
        ("refuse", 3, "no room until [Sunday]"),
        ("fail oddly", 4, "the ServerApp broke: ZeroDivisionError"),
        ("quit", 4, "Connection to the SuperLink is unavailable"),
        ("misconfigured", 4, "Invalid run configuration; next: flwr-kld doctor"),
        ("nothing", 4, "under 'drift-statistics'"),
    ],
)
def test_without_an_answer_the_reason_and_no_file(describe, flwr, tmp_path, does, code, why):
    flwr.will(does)
    out = tmp_path / "r.json"
    done = describe("--key", KEY, "--reference", out)
    assert done.exit_code == code
    assert why in done.stdout
    assert not out.exists()


@pytest.mark.parametrize(
    ("file", "why"), [("r.txt", "a .json file"), ("no/r.json", "there is no folder")]
)
def test_a_bad_place_is_noticed_before_anybody_is_asked(describe, flwr, tmp_path, file, why):
    flwr.will("make", REPORT.to_dict())
    done = describe("--key", KEY, "--reference", tmp_path / file)
    assert (done.exit_code, flwr.calls) == (4, [])
    assert why in done.stderr


def test_a_first_look_makes_the_table_that_is_asked_next(describe, flwr, tmp_path):
    """20,000 numbers between 64 and 1,024, most of them low."""
    table = Table({"income": Binned.powers()})
    held = np.zeros(table.size)
    held[table.columns["income"].encode([65.0, 130.0, 260.0, 520.0])] = [
        10_000,
        6_000,
        3_000,
        1_000,
    ]
    made = Reference.from_counts(table, held)
    look = REPORT.columns["minutes"]
    counts = replace(look.counts, values=tuple(held.astype(int).tolist()), noise=10.0)
    report = replace(
        REPORT,
        columns={"income": replace(look, counts=counts)},
        domain=table.fingerprint,
        reference=made.fingerprint,
    )
    settle(flwr.ledger, KEY, report.to_dict(), reference_state(made, KEY, "default"))
    done = describe("--key", KEY, "--table", tmp_path / "table.toml")
    assert done.exit_code == 0, done.output
    edges = Table.from_toml(tmp_path / "table.toml").columns["income"].edges
    assert 64 <= edges[0] < edges[-1] <= 1024
    assert "describe again with another --key" in next_of(done)
    assert sum(edge <= 128 for edge in edges) == pytest.approx(len(edges) / 2, abs=1.5)


def test_what_is_no_table_has_no_bins(describe, flwr, tmp_path):
    flwr.will("make", REPORT.to_dict())
    done = describe("--key", KEY, "--table", tmp_path / "table.toml")
    assert done.exit_code == 4
    assert "not a table" in done.stderr
    assert not (tmp_path / "table.toml").exists()


def test_a_key_of_a_check_is_none_of_a_reference_and_the_other_way_round(
    describe, cli, flwr, flower_app
):
    settle(flwr.ledger, "july", decided(Outcome.DRIFT, 0.2).to_dict(), kind=Kind.CHECK)
    done = describe("--key", "july")
    assert (done.exit_code, flwr.calls) == (4, [])
    assert "under 'july' is a check: give another --key" in done.stdout
    settle(flwr.ledger, "june", REPORT.to_dict(), reference_state(MADE, "june"))
    check = cli("check", flower_app, "--key", "june")
    assert check.exit_code == 4
    why = f"it is not a drift check: {REPORT.summary}"
    assert why in check.stdout
    settle(flwr.ledger, "august", decided(Outcome.DRIFT, 0.2).to_dict(), kind=Kind.CHECK)
    listed = cli("report", COLUMNS="300")
    checks = CheckSeries.from_ledger(Ledger(flwr.ledger))
    assert [(check.number, bool(check.report)) for check in checks] == [(1, True), (2, True)]
    assert f"statistics 'june': {REPORT.summary}" in listed.stderr
    settle(flwr.ledger, "d1", {"schema": "draws 1", "draws": [2, 0]}, kind=Kind.DRAWS)
    assert "draws 'd1'" in cli("report", COLUMNS="300").stderr
    assert "it is not a drift check: draws" in cli("check", flower_app, "--key", "d1").stdout


def test_a_discovery_is_listed_as_what_it_is(cli, flwr, flower_app):
    found = DiscoveryReport(
        started=REPORT.started, guarantee=REPORT.guarantee, cohort=REPORT.cohort, cost=REPORT.cost,
        protection=REPORT.protection, one_client=REPORT.one_client,
        reading=Discovered(
            "job", (FoundLabel("baker", 120.0, 90.0, 150.0),), 28, 33
        ),
    )  # fmt: skip
    settle(flwr.ledger, "names", found.to_dict(), kind=Kind.DISCOVERY)
    assert (
        "discovery 'names': Found 1 unlisted label of job, first baker."
        in cli("report", COLUMNS="900").stderr
    )
    check = cli("check", flower_app, "--key", "names")
    assert check.exit_code == 4
    assert "it is not a drift check: Found 1 unlisted label of job" in check.stdout
    assert "another version" not in check.stdout


OTHER = Reference.from_counts(MADE.domain, [1, 1, 1])


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ([], "keeps no reference under key '2026-09'"),
        (
            [reference_state(MADE, KEY, "others")],
            "keeps no reference under key '2026-09' of 'default'",
        ),
        ([reference_state(OTHER, KEY)], "is damaged"),
        ([Remembered(f"default/reference/{KEY}", {"domain": {}})], "is damaged"),
        ([Remembered(f"default/reference/{KEY}", [1.0])], "is damaged"),
    ],
)
def test_only_what_the_report_names_is_written(describe, flwr, tmp_path, states, why):
    settle(flwr.ledger, KEY, REPORT.to_dict(), *states)
    out = tmp_path / "r.json"
    done = describe("--key", KEY, "--reference", out)
    assert (done.exit_code, flwr.calls) == (4, [])
    assert why in " ".join(done.stderr.split())
    assert not out.exists()


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [
        (("describe", "--save", "d.html"), "jinja2", "plots"),
        (("describe", "--save", "d.png"), "matplotlib", "plots"),
        (("check", "--metrics-file", "d.prom"), "prometheus_client", "metrics"),
    ],
)
def test_an_extra_that_is_missing_is_named_before_anybody_is_asked(
    cli, flwr, flower_app, without, command, missing, extra
):
    without(missing)
    done = cli(command[0], flower_app, "--key", KEY, *command[1:])
    assert (done.exit_code, flwr.calls) == (4, [])
    assert f"flwr-kld[{extra}]" in done.stderr


def test_what_the_ledger_has_is_said_after_the_whole_first_line(cli, flwr, flower_app):
    flwr.will("make", REPORT.to_dict())
    for _ in range(2):
        done = cli("describe", flower_app, "prod", "--key", KEY, COLUMNS="40")
        assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert f"{REPORT.summary} Already in the ledger: nobody was asked. Asked" in said
