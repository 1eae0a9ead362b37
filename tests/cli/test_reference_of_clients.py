"""``reference build --from clients``: paid for once a key, and the same file each time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report.samples import STATISTICS, decided

from flwr_kld import Labels, Reference
from flwr_kld.accounting import Charge, Cost, Everyone, Kind, Ledger
from flwr_kld.accounting.entry import Remembered
from flwr_kld.accounting.kept_reference import kept_as
from flwr_kld.kernel import Guarantee
from flwr_kld.report import CheckSeries, Outcome
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
from flwr_kld.report.statistics_report import StatisticsReport

KEY = "2026-09"
MADE = Reference.from_counts(Labels(["bus", "car", "train"]), [3, 1, 3])
REPORT = replace(STATISTICS, reference=MADE.fingerprint)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "reference.npz"


@pytest.fixture
def build(cli, out, flower_app):
    """Run the command with a deployment's options."""

    def run(*options: object):
        return cli(
            "reference", "build", out, "--from", "clients", "--app", flower_app,
            "--connection", "prod", *options,
        )  # fmt: skip

    return run


def settle(
    url: str, key: str, report: dict, *states: Remembered, kind: Kind = Kind.STATISTICS
) -> None:
    ledger = Ledger(url)
    cost = Cost.claimed("discrete-laplace", Guarantee(0.1))
    reservation = ledger.reserve(key, [Charge(cost, Everyone())], kind=kind)
    ledger.settle(reservation, report, states=states)


def test_what_clients_made_is_written_as_it_was_made(build, flwr, out, flower_app):
    flwr.will("make", REPORT.to_dict())
    done = build("--key", KEY, "--json")
    assert done.exit_code == 0, done.output
    assert Reference.load(out).fingerprint == MADE.fingerprint
    answer = json.loads(done.stdout)
    assert (answer["outcome"], answer["file"], answer["ran"]) == ("made", str(out), True)
    assert StatisticsReport.from_dict(answer["report"]) == REPORT
    assert MADE.fingerprint in done.stderr
    assert flwr.calls == [
        ["run", str(flower_app), "prod", "--stream", "--run-config", f'drift-statistics="{KEY}"']
    ]


def test_the_same_key_spends_nothing_and_writes_the_same_file(build, flwr, out):
    flwr.will("make", REPORT.to_dict())
    build("--key", KEY)
    spent, first = Ledger(flwr.ledger).spent(), out.read_bytes()
    out.unlink()
    again = build("--key", KEY)
    assert (again.exit_code, len(flwr.calls)) == (0, 1)
    assert out.read_bytes() == first
    assert Ledger(flwr.ledger).spent() == spent
    lines = again.stdout.splitlines()
    assert lines[0] == f"MADE  reference {KEY} (already in the ledger: nobody was asked)"
    assert "2,900 records of 29 of 30 clients (1 × no reply); ε = 0.9 per record" in lines[1]


@pytest.mark.parametrize(
    ("does", "code", "why"),
    [
        ("fail", 3, "nothing was released: 3 clients answered"),
        ("refuse", 3, "no room until [Sunday]"),
        ("fail oddly", 4, "the ServerApp broke: ZeroDivisionError"),
        ("quit", 4, "Connection to the SuperLink is unavailable."),
        ("misconfigured", 4, "declares drift-statistics = ''"),
        ("nothing", 4, "under 'drift-statistics'"),
    ],
)
def test_without_a_reference_no_file_and_the_reason(build, flwr, out, does, code, why):
    flwr.will(does)
    done = build("--key", KEY, "--json")
    assert done.exit_code == code
    answer = json.loads(done.stdout)
    assert answer["outcome"] == {3: "refused", 4: "error"}[code]
    assert why in answer["message"]
    assert (answer["file"], answer["report"]) == (None, None)
    assert not out.exists()
    people = build("--key", KEY)
    assert people.stdout.splitlines()[0] == f"{answer['outcome'].upper()}  reference {KEY}"


def test_a_key_of_a_check_is_none_of_a_reference_and_the_other_way_round(
    build, cli, flwr, out, flower_app
):
    settle(flwr.ledger, "july", decided(Outcome.DRIFT, 0.2).to_dict(), kind=Kind.CHECK)
    done = build("--key", "july")
    assert (done.exit_code, flwr.calls) == (4, [])
    assert "under 'july' is not a reference" in done.stdout
    assert not out.exists()
    settle(flwr.ledger, "june", REPORT.to_dict(), kept_as(MADE, "june"))
    check = cli("check", flower_app, "--key", "june")
    assert check.exit_code == 4
    why = f"it is not a drift check: {REPORT.brief}"
    assert why in check.stdout
    listed = cli("history", COLUMNS="300")
    assert [
        (check.number, check.failure) for check in CheckSeries.from_ledger(Ledger(flwr.ledger))
    ] == [
        (1, None)  # July's
    ]
    assert f"statistics 'june': {REPORT.brief}" in listed.stderr
    settle(flwr.ledger, "d1", {"schema": "draws 1", "draws": [2, 0]}, kind=Kind.DRAWS)
    assert "draws 'd1'" in cli("history", COLUMNS="300").stderr
    assert "it is not a drift check: draws" in cli("check", flower_app, "--key", "d1").stdout


def test_a_discovery_is_listed_as_what_it_is(cli, flwr, flower_app):
    found = DiscoveryReport(
        started=REPORT.started, guarantee=REPORT.guarantee, cohort=REPORT.cohort, cost=REPORT.cost,
        protection=REPORT.protection, one_client=REPORT.one_client,
        reading=Discovered(
            "job", (FoundLabel("baker", 120.0, 90.0, 150.0),), 200.0, 35.0, {"8": 53.0}
        ),
    )  # fmt: skip
    settle(flwr.ledger, "names", found.to_dict(), kind=Kind.DISCOVERY)
    assert (
        "discovery 'names': unlisted labels of job: baker" in cli("history", COLUMNS="900").stderr
    )
    check = cli("check", flower_app, "--key", "names")
    assert check.exit_code == 4
    assert "it is not a drift check: unlisted labels of job" in check.stdout
    assert "another version" not in check.stdout


OTHER = Reference.from_counts(MADE.domain, [1, 1, 1])


@pytest.mark.parametrize(
    ("states", "why"),
    [
        ([], "keeps no reference under key '2026-09'"),
        ([kept_as(MADE, KEY, "others")], "keeps no reference under key '2026-09' of 'default'"),
        ([kept_as(OTHER, KEY)], "is damaged"),
        ([Remembered(f"default/reference/{KEY}", {"domain": {}})], "is damaged"),
        ([Remembered(f"default/reference/{KEY}", [1.0])], "is damaged"),
    ],
)
def test_only_what_the_report_names_is_written(build, flwr, out, states, why):
    settle(flwr.ledger, KEY, REPORT.to_dict(), *states)
    done = build("--key", KEY)
    assert (done.exit_code, flwr.calls) == (4, [])
    assert why in done.stdout
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ([], "give --key"),
        (["--key", "a b"], "is not a valid key"),
        (["--key", KEY, "--domain", "d.json"], "leave out --domain"),
        (["--key", KEY, "--counts", "c.json", "--floor", "0"], "leave out --counts, --floor"),
        (["--key", KEY, "--records", "r.json"], "leave out --records"),
    ],
)
def test_options_that_contradict_clients(build, flwr, options, why):
    flwr.will("make", REPORT.to_dict())
    done = build(*options)
    assert done.exit_code == 4
    assert why in done.stderr
    assert flwr.calls == []


def test_a_folder_that_is_not_there_is_noticed_before_anything_is_spent(cli, flwr, flower_app):
    flwr.will("make", REPORT.to_dict())
    done = cli(
        "reference", "build", flower_app / "missing" / "r.npz", "--from", "clients",
        "--app", flower_app, "--key", KEY,
    )  # fmt: skip
    assert (done.exit_code, flwr.calls) == (4, [])
    assert "there is no folder" in done.stderr
