"""``flwr-kld doctor``: what would stop a check, and the next command, before anything is spent."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest
from cli.place import Place, Typed, answered, elsewhere, without_budget
from report.samples import decided

from flwr_kld import Labels, Reference
from flwr_kld.guard import node_identity
from flwr_kld.infer.verdict import Outcome
from flwr_kld.ledger import Ledger
from flwr_kld.ledger.entry import Failure, FailureKind

DRIFT = decided(Outcome.DRIFT, 0.2).to_dict()


def ahead(p: Place) -> list[object]:
    why, year = Failure(FailureKind.COHORT, "too few"), 365 * 86_400
    Ledger(p.ledger).refuse("later", why, now=time.time() + year)
    return p.doctor()


def other_guard(p: Place, old: str, new: str) -> list[object]:
    p.change("app/deploy/guard.toml", old, new)
    return p.doctor()


def shipped(p: Place) -> Path:
    return p.app / "app" / "reference.json"


def changed(p: Place, old: str, new: str, *, run: Typed) -> list[object]:
    p.change("app/pyproject.toml", old, new)
    return run(p)


MISTAKES: dict[str, tuple[Typed, str]] = {
    "no app": (lambda p: ["doctor", p.folder / "no"], r"FAIL app.*\n *next: flwr-kld init"),
    "guard": (
        lambda p: other_guard(p, "max_delta", "most_delta"),
        r"FAIL guard.*unknown key check.most_delta\n *next: correct",
    ),
    "guard of another reference": (
        lambda p: (
            Reference.from_counts(Labels(["a"]), [1]).save(shipped(p)),
            shipped(p).with_name("table.toml").unlink(), p.doctor(),
        )[2],
        r"refuses the app's domain\n *next: add \"[0-9a-f]{64}\" to allow\.domains",
    ),
    "guard of less epsilon": (
        lambda p: other_guard(p, "max_epsilon = 0.5", "max_epsilon = 0.01"),
        r"refuses epsilon 0.5\n *next: raise check\.max_epsilon",
    ),
    "reference": (
        lambda p: (shipped(p).write_text("{}"), p.doctor())[1],
        r"FAIL reference.*not a flwr-kld reference file.*\n *next: flwr-kld init",
    ),
    "no key": (
        lambda p: p.doctor("--key", p.folder / "no.key", "--roster", p.folder / "roster.json"),
        r"FAIL key.*\n *next: flwr-kld keys make",
    ),
    "a key that is not listed": (
        lambda p: (
            node_identity(p.folder / "new.key"),
            p.doctor("--key", p.folder / "new.key", "--roster", p.folder / "roster.json"),
        )[1],
        r"does not list the key [0-9a-f]{64}\n *next: flwr-kld keys roster",
    ),
    "roster": (
        lambda p: p.doctor("--key", p.folder / "node.key", "--roster", p.write("r.json", "[]")),
        r"FAIL roster.*\n *next: flwr-kld keys roster",
    ),
    "a ledger that is no URL": (
        lambda p: p.doctor("--ledger", "drift.db"),
        r"not a database URL: try sqlite:///drift\.db\n *next: give --ledger",
    ),
    "a module without its app": (
        lambda p: changed(p, "server_app:app", "server_app:monitoring", run=Place.doctor),
        r"FAIL app.*monitoring.*\n *next: .*correct",
    ),
    "another ledger": (
        lambda p: p.doctor("--ledger", elsewhere(p)),
        r"the app writes .*\n *next: give --ledger sqlite",
    ),
    "no budget": (
        lambda p: (without_budget(p), p.doctor())[1],
        r"has no budget\n *next: flwr-kld budget --ledger .* --set EPSILON",
    ),
    "too often": (
        lambda p: p.doctor("--schedule", "every 1h"),
        r"FAIL budget: 721 checks in any 30 days.*\n *next: the budget has room for",
    ),
    "key not declared": (
        lambda p: changed(p, "drift-check", "drift-chek", run=Place.doctor),
        r"does not declare drift-check\n *next: add drift-check = ''",
    ),
    "clock": (ahead, r"FAIL clock.*\n *next: set it: timedatectl"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do_and_nothing_is_spent(cli, flwr, place, mistake):
    typed, words = MISTAKES[mistake]
    answered(cli, flwr, typed(place), words)


def test_nothing_is_in_the_way_of_what_init_wrote(cli, place):
    done = cli("doctor", place.app, "--key", place.folder / "node.key", "--roster",
               place.folder / "roster.json")  # fmt: skip
    assert done.exit_code == 0, done.stdout
    assert "this node is 'clinic-a'" in done.stdout
    assert "2 checks in any 30 days, each person charged for 2 of them" in done.stdout


def test_a_budget_without_room_for_another_check_is_said(cli, place, url, settled):
    def ledger_of():
        rows = json.loads(cli("doctor", place.app, "--ledger", url, "--json").stdout)
        return next(row for row in rows if row["what"] == "ledger")

    place.change("app/pyproject.toml", place.ledger, url)
    settled("a", DRIFT, epsilon=0.4)
    assert ledger_of()["state"] == "ok"
    settled("b", DRIFT, epsilon=0.4)
    found = ledger_of()
    assert found["state"] == "failed"
    assert "wait until" in found["next"]


def test_a_schedule_is_the_apps_own(cli, place):
    cron = place.app / "deploy" / "kld.cron"
    rows = json.loads(cli("doctor", place.app, "--json").stdout)
    monthly = {row["what"]: row for row in rows}
    assert monthly["budget"]["words"].startswith("2 checks in any 30 days")
    assert "flwr-kld plan REFERENCE" in monthly["budget"]["next"]
    assert "--schedule '0 3 1 * *'" in monthly["budget"]["next"]
    assert "schedule" not in monthly
    cron.unlink()
    rows = json.loads(cli("doctor", place.app, "--json").stdout)
    taken = {row["what"]: row for row in rows}
    assert taken["budget"]["words"].startswith("31 checks in any 30 days")
    assert "--schedule" in taken["schedule"]["next"]


@pytest.mark.usefixtures("two_cohorts")
def test_the_forecast_that_it_names_is_of_the_apps_own_checks(cli, tmp_path):
    sample, app = tmp_path / "sample.csv", tmp_path / "app"
    sample.write_text("\n".join(["nr,age", *(f"{n},{n * 7 % 31}" for n in range(200))]))
    made = cli("init", sample, "--out", app, "--id", "nr", "--schedule", "0 3 * * 1")
    assert made.exit_code == 0, made.output
    found = {row["what"]: row for row in json.loads(cli("doctor", app, "--json").stdout)}
    _, *typed = shlex.split(found["budget"]["next"].partition(" says which")[0])
    known = {"REFERENCE": app / "app" / "reference.json", "N": 4, "M": 900}
    done = cli(*(known.get(word, word) for word in typed), "--json")
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert (row["checks"], row["epsilon_per_year"], row["delta"]) == (53, 1, 1e-6)


def test_a_made_up_reference_is_no_reference_and_its_app_has_a_budget(cli, tmp_path):
    table, app = tmp_path / "table.toml", tmp_path / "app"
    table.write_text('[columns.ward]\nkind = "labels"\nnames = ["a", "b", "c"]\n')
    made = cli("init", table, "--out", app)
    assert made.exit_code == 0, made.output
    found = {row["what"]: row for row in json.loads(cli("doctor", app, "--json").stdout)}
    assert found["reference"]["state"] == "warning"
    assert found["reference"]["next"].startswith(f"flwr-kld describe {app}")
    assert found["budget"]["words"].startswith("2 checks in any 30 days")  # not describe's epsilon
    reference = app / "app" / "reference.json"
    counted = Reference.from_counts(Reference.load(reference).domain, [5000, 3000, 1000])
    counted.save(reference)  # of public rows that were found later
    found = {row["what"]: row for row in json.loads(cli("doctor", app, "--json").stdout)}
    assert found["reference"]["state"] == "ok"


def test_a_draft_is_not_taken_for_what_nodes_allow(cli, place):
    rows = json.loads(cli("doctor", place.app, "--json").stdout)
    (words,) = (row["words"] for row in rows if row["what"] == "guard")
    assert {"draft", "node's"} <= set(words.split())


def test_a_byte_order_mark_is_in_nobodys_way(cli, place):
    file = place.app / "app" / "server_app.py"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert cli("doctor", place.app).exit_code == 0


def test_a_node_makes_its_key_once_and_the_roster_lists_it(cli, place):
    first = cli("keys", "make", place.folder / "own.key")
    again = cli("keys", "make", place.folder / "own.key")
    assert first.exit_code == again.exit_code == 0
    assert first.stdout == again.stdout
    public = first.stdout.strip()
    file = place.folder / "own.json"
    done = cli("keys", "roster", file, f"clinic a={public}", f"b={'0' * 64}")
    assert done.exit_code == 0, done.output
    looked = cli("doctor", place.app, "--key", place.folder / "own.key", "--roster", file)
    assert "2 nodes; this node is 'clinic a'" in looked.stdout
