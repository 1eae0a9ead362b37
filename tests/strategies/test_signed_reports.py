"""Signed reports: the honest one is verified anywhere, and whatever is changed is refused."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sealed_federation
import split_federation
from federation import REFERENCE, app_of, grid_of
from guarded_nodes import plain, summed, summing
from tables import REFERENCE as OF_TABLE
from tables import table_app
from typer.testing import CliRunner

from flwr_kld import Labels, Reference
from flwr_kld.cli.app import app
from flwr_kld.common.errors import CheckFailed
from flwr_kld.common.identity import Identity
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.audit import NotVerified, read, receipts_of, require_verified, signed
from flwr_kld.report.report import Report
from flwr_kld.simulations import simulate
from flwr_kld.strategies import (
    KLDrift,
    SinceLastCheck,
    Standing,
    Trusted,
    UniformCohort,
    WholeClients,
)
from strategies import test_periods as periods

SERVER, OTHER = Identity(bytes(range(32))), Identity(bytes(range(1, 33)))


def key_file(folder: Path, name: str, identity: Identity) -> Path:
    place = folder / name
    place.write_bytes(identity.to_bytes())
    place.chmod(0o600)
    return place


@pytest.fixture(autouse=True)
def server(tmp_path, monkeypatch):
    """A server with a signing key."""
    place = key_file(tmp_path, "server.key", SERVER)
    monkeypatch.setenv("FLWR_KLD_SIGNING_KEY", str(place))
    return place


def verified(text: str) -> Report:
    report = read(text)
    require_verified(report)
    return report


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The report of a table, in which one column has drifted."""
    with pytest.MonkeyPatch.context() as patch:
        place = key_file(tmp_path_factory.mktemp("server"), "server.key", SERVER)
        patch.setenv("FLWR_KLD_SIGNING_KEY", str(place))
        monitor = KLDrift(OF_TABLE, Trusted(3.0, 1e-6), threshold=0.05)
        return monitor.check(grid_of(table_app())).to_json()


def resigned(content: dict, identity: Identity = SERVER) -> str:
    """What a server writes that signs whatever it likes."""
    report = Report.of_content({n: v for n, v in content.items() if n != "sha256"})
    assert report.evidence is not None
    return signed(report, report.evidence, identity).to_json()


def changed(text: str, path: str, value: object) -> dict:
    content = json.loads(text)
    *folders, last = path.split("/")
    place = content
    for name in folders:
        place = place[int(name) if isinstance(place, list) else name]
    last = int(last) if isinstance(place, list) else last
    assert place[last] != value, path
    place[last] = value
    return content


DRIFT = "columns/fruit/verdict"
TERMS = "evidence/terms"
LIES = {
    "a count": ("evidence/values/0", 1),
    "a count that is no int64": ("evidence/values/0", 2**70),
    "fewer counts": ("evidence/values", [3, 4]),
    "records": ("evidence/records", 1234.0),
    "clients": ("evidence/clients", 3),
    "clients of the report": ("cohort/survivors", 3),
    "asked": ("cohort/asked", 30),
    "sizes": ("evidence/sizes", None),
    "seed and all that follows": ("evidence/terms/cells", [6, 4, 25]),
    "plan": ("compared/plan", "0" * 64),
    "plan of the question": (f"{TERMS}/plan", "0" * 64),
    "epsilon": ("cost/epsilon", 0.5),
    "promised epsilon": ("guarantee/epsilon", 0.5),
    "promised delta": ("guarantee/delta", 1e-9),
    "epsilon of the question": (
        f"{TERMS}/guarantee", '{"delta":1e-06,"epsilon":0.5,"protects":"record"}'
    ),
    "protected": ("guarantee/protects", {"most_records": 5}),
    "threshold": ("evidence/tolerated/fruit", [4.0, 0.9]),
    "threshold of the verdict": (f"{DRIFT}/threshold", 4.0),
    "alarm": ("evidence/alarm/rate", 0.001),
    "level of the alarm": ("evidence/alarm/level", 0.5),
    "outcome": (f"{DRIFT}/outcome", "no drift"),
    "outcome of the report": ("verdict/outcome", "no drift"),
    "reason": (f"{DRIFT}/reason", "all is well"),
    "bound": (f"{DRIFT}/lower_bound", 0.001),
    "estimate": ("columns/fruit/reading/estimate", 0.001),
    "what moved": ("columns/fruit/moved", None),
    "histogram": ("columns/juice/histogram/clients/0", 0.5),
    "date": ("started", "2999-01-01T00:00:00+00:00"),
    "check": ("check", "00f1e2d3c4b5a697"),
    "period": ("period", {"column": "visited", "start": "2026-11-24", "end": "2026-11-25"}),
    "reference of the report": ("compared/reference", "0" * 64),
    "reference": ("evidence/reference/probabilities/0", 0.41),
    "noise": ("protection/noise", 0.01),
    "mechanism": ("protection/mechanism", "none"),
    "trust model": ("protection/trust", "two-aggregators"),
    "aggregation": ("protection/aggregation", "sealed-sum"),
    "who saw what": ("protection/aggregation", "secure-sum"),
    "version": ("evidence/version", "0.0"),
    "evidence of earlier checks": ("evidence/gathered", {
        "fruit": {"rate": 0.01, "horizon": 365, "checks": 1, "evidence": 9.0, "schema": 1}
    }),
    "adding up": ("evidence/adds_up", True),
    "night": ("cost/night", 2),
    "one client": ("one_client/share", 0.5),
    "no evidence": ("evidence", None),
}  # fmt: skip


def test_the_honest_report_is_verified(text):
    report = verified(text)
    assert report.columns["fruit"].verdict.outcome is Outcome.DRIFT
    assert report.evidence.public == SERVER.public.hex()
    assert Report.from_json(text).to_json() == text


@pytest.mark.parametrize("lie", LIES)
def test_what_anybody_changes_is_refused(text, lie):
    content = changed(text, *LIES[lie])
    with pytest.raises(NotVerified):
        verified(json.dumps(content, indent=2, sort_keys=True))  # with a checksum that is wrong
    try:
        told = Report.of_content({n: v for n, v in content.items() if n != "sha256"})
    except ValueError:
        return
    if lie == "outcome of the report":  # which follows from those of its columns, and is not read
        assert told.to_json() == text
        return
    with pytest.raises(NotVerified, match="not signed" if lie == "no evidence" else "signature"):
        verified(told.to_json())


@pytest.mark.parametrize("lie", [name for name in LIES if name != "no evidence"])
def test_what_the_server_changes_and_signs_again_is_refused_by_the_arithmetic(text, lie):
    content = changed(text, *LIES[lie])
    try:
        told = resigned(content)
    except ValueError:
        return  # no report at all
    if lie == "outcome of the report":
        assert told == text
        return
    with pytest.raises(NotVerified) as refused:
        verified(told)
    assert "server's signature" not in str(refused.value)


def test_a_verdict_that_was_changed_throughout_and_signed_again_is_refused(text):
    content = json.loads(text)
    content["columns"]["fruit"]["verdict"] = content["columns"]["juice"]["verdict"]
    content["columns"]["fruit × juice"]["verdict"] = content["columns"]["juice"]["verdict"]
    told = resigned(content)
    assert read(told).outcome is not Outcome.DRIFT
    with pytest.raises(NotVerified, match=r"columns\.fruit"):
        verified(told)


FORMS = {
    "empty": lambda text: "",
    "cut short": lambda text: text[:-2],
    "half": lambda text: text[: len(text) // 2],
    "twice": lambda text: text + text,
    "a blank more": lambda text: text + " ",
    "two line ends": lambda text: text + "\n\n",
    "another indent": lambda text: json.dumps(json.loads(text), sort_keys=True),
    "another order": lambda text: json.dumps(json.loads(text), indent=2, sort_keys=False)[::-1],
    "a key twice": lambda text: text.replace('"check":', '"check": "0",\n  "check":', 1),
    "a key more": lambda text: text.replace('"check":', '"allowed": true,\n  "check":', 1),
    "a column more": lambda text: text.replace('"columns": {', '"columns": {\n    "age": null,', 1),
    "NaN": lambda text: text.replace('"records": 2000.0', '"records": NaN', 1),
    "infinity": lambda text: text.replace('"records": 2000.0', '"records": Infinity', 1),
    "a whole number": lambda text: text.replace('"records": 2000.0', '"records": 2000', 1),
    "more digits": lambda text: text.replace('"records": 2000.0', '"records": 2000.00', 1),
    "a list": lambda text: f"[{text}]",
    "deep": lambda text: "[" * 100_000,
    "another escape": lambda text: text.replace("fruit", "\\u0066ruit", 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_another_form_is_refused(text, form):
    told = FORMS[form](text)
    assert told != text
    with pytest.raises(NotVerified):
        verified(told)


def test_a_line_end_is_the_only_thing_that_may_follow(text):
    verified(text + "\n")


def test_signatures_of_other_reports_and_keys_are_refused(text):
    other = KLDrift(OF_TABLE, Trusted(3.0, 1e-6), threshold=0.05).check(grid_of(table_app()))
    swapped = changed(text, "evidence/signature", other.evidence.signature)
    taken = changed(text, "evidence/public", OTHER.public.hex())
    same = json.loads(text)["evidence"]["signature"].upper()
    for content in (swapped, taken, *(changed(text, "evidence/signature", s) for s in ("", same))):
        told = Report.of_content({n: v for n, v in content.items() if n != "sha256"})
        with pytest.raises(NotVerified, match="signature"):
            verified(told.to_json())


def test_no_bit_of_the_file_can_be_flipped(text):
    generator, written = np.random.default_rng(0), text.encode()
    for place in generator.choice(8 * len(written), 2_000, replace=False).tolist():
        flipped = bytearray(written)
        flipped[place // 8] ^= 1 << place % 8
        with pytest.raises((NotVerified, UnicodeDecodeError)):
            verified(flipped.decode())


def run(*arguments: object, folder) -> subprocess.CompletedProcess:
    """Run the command in a fresh interpreter, that has neither a ledger nor Flower."""
    script = (
        "import sys; sys.modules.update(flwr=None, ray=None, sqlalchemy=None)\n"
        "from flwr_kld.cli.app import main; main()"
    )
    words = [sys.executable, "-c", script, "verify", *map(str, arguments)]
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True)


def test_the_command_verifies_with_the_package_alone(text, tmp_path):
    file = tmp_path / "report.json"
    file.write_text(text)
    ended = run(file, "--public", SERVER.public.hex(), folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(ended.stdout.splitlines()) <= 10
    for words in ("verified", SERVER.public.hex(), OF_TABLE.fingerprint, "not proved"):
        assert words in ended.stdout
    verify = ["verify", str(file)]
    assert CliRunner().invoke(app, [*verify, "--public", OTHER.public.hex()]).exit_code == 4
    file.write_text(text.replace("no drift", "no alarm", 1))
    assert CliRunner().invoke(app, verify).exit_code == 4
    assert sorted(tmp_path.iterdir()) == sorted({file, tmp_path / "server.key"})


# ------------------------------------------------------------------------ other models and checks


def fruit_check(**options) -> Report:
    return KLDrift(REFERENCE, Trusted(3.0, **options), threshold=0.05).check(grid_of())


@pytest.mark.parametrize(
    "make",
    [
        lambda: fruit_check(delta=1e-6, protects=WholeClients(100)),
        lambda: summed().check(grid_of(summing())),
        lambda: KLDrift(REFERENCE, Trusted(3.0)).check(grid_of()),
        lambda: KLDrift(
            REFERENCE, Trusted(3.0, 1e-6), cohort=UniformCohort(12), threshold=0.05
        ).check(grid_of()),
    ],
    ids=["whole clients", "noise shares", "no threshold", "drawn clients"],
)
def test_reports_of_other_checks_are_verified(make):
    report = make()
    assert verified(report.to_json()) == report


def test_a_report_of_drawn_cells_is_verified():
    many = Labels([f"v{i}" for i in range(90)])
    reference = Reference.from_counts(many, 1.0 / np.arange(1, 91), floor=0.0)
    monitor = KLDrift(reference, Trusted(5.0), cells=32, threshold=0.05)
    names = np.random.default_rng(0).choice(many.names, 4000, p=reference.probabilities[:90])
    report = simulate(monitor, names.tolist(), clients=10)
    assert verified(report.to_json()) == report
    for lie in (("evidence/seed", 5), ("evidence/cells", 33)):
        with pytest.raises(NotVerified, match="cells of this reference"):
            verified(resigned(changed(report.to_json(), *lie)))


def test_nights_of_a_session_are_verified(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path))
    trust = Standing(Trusted(1.0, 1e-6), nights=5, book=tmp_path / "b.db")
    monitor, rows = KLDrift(REFERENCE, trust, threshold=0.05), ["apple", "banana", "cherry"] * 400
    for night in (1, 2):
        report = simulate(monitor, rows, clients=6, seed=1)
        assert verified(report.to_json()) == report
        assert report.cost.night == night
        assert report.to_frame() is not None


def test_evidence_that_adds_up_is_verified(monkeypatch):
    monkeypatch.setattr(SinceLastCheck, "next", lambda rule, last, now=None: periods.JUNE)
    monitor = KLDrift(
        periods.REFERENCE, periods.TRUST, threshold=0.05, period=SinceLastCheck("visited")
    )
    for checks in (0, 1):
        report = monitor.check(periods.federation())
        assert verified(report.to_json()) == report
        (before,) = report.evidence.gathered.values()
        assert before.checks == checks
    content = json.loads(report.to_json())
    content["evidence"]["gathered"]["age"] |= {"checks": 0, "evidence": 0.0}
    with pytest.raises(NotVerified, match=r"columns\.age"):
        verified(resigned(content))


def test_a_check_is_written_from_the_ledger_as_it_was_signed(tmp_path):
    url = f"sqlite:///{tmp_path}/drift.db"
    ledger = Ledger(url)
    ledger.set_budget(Budget(10.0))
    report = KLDrift(REFERENCE, Trusted(3.0), ledger=ledger).check(grid_of(), "monday")
    file = tmp_path / "monday.json"
    commands = CliRunner()

    def write(file, key):
        return commands.invoke(app, ["report", str(file), "--ledger", url, "--key", key])

    assert write(file, "monday").exit_code == 0
    assert verified(file.read_text()) == report
    assert "tuesday" in write(file, "tuesday").output
    assert ".json" in write(tmp_path / "monday.csv", "monday").output


def key_of(grid, node: int, identity: Identity, folder) -> None:
    place = key_file(folder, f"{node}.ed25519", identity)
    grid.contexts[node].node_config["drift-identity"] = str(place)


def test_an_aggregator_signs_and_a_server_cannot_change_its_numbers(tmp_path):
    grid = sealed_federation.federation()
    key_of(grid, sealed_federation.AGGREGATOR, OTHER, tmp_path)
    text = sealed_federation.monitor(threshold=0.05).check(grid).to_json()
    report = verified(text)
    (part,) = report.evidence.aggregators
    assert part.public == OTHER.public.hex()
    content = json.loads(text)
    content["evidence"]["values"][0] += 1
    with pytest.raises(NotVerified, match="those of the aggregators"):
        verified(resigned(content))
    content["evidence"]["aggregators"][0]["values"] = "00" * (8 * len(report.evidence.values))
    with pytest.raises(NotVerified, match="signature of an aggregator"):
        verified(resigned(content))


def test_both_aggregators_sign_their_parts(tmp_path):
    grid = split_federation.federation()
    key_of(grid, split_federation.FIRST, OTHER, tmp_path)
    key_of(grid, split_federation.SECOND, SERVER, tmp_path)
    text = split_federation.monitor(threshold=0.05).check(grid).to_json()
    report = verified(text)
    assert {part.public for part in report.evidence.aggregators} == {
        OTHER.public.hex(), SERVER.public.hex()
    }  # fmt: skip
    content = json.loads(text)
    content["evidence"]["values"][0] += 1
    with pytest.raises(NotVerified, match="those of the aggregators"):
        verified(resigned(content))
    del content["evidence"]["aggregators"][0]
    with pytest.raises(NotVerified, match="another number of aggregators"):
        verified(resigned(content))


def test_an_aggregators_word_takes_the_keys_of_all_that_signed(tmp_path):
    grid = split_federation.federation()
    key_of(grid, split_federation.FIRST, OTHER, tmp_path)
    key_of(grid, split_federation.SECOND, SERVER, tmp_path)
    file = tmp_path / "report.json"
    file.write_text(split_federation.monitor(threshold=0.05).check(grid).to_json())
    first, second = (("--public", one.public.hex()) for one in (OTHER, SERVER))
    for named, whose in (((), "server's"), ((*first, *second), "aggregators'")):
        ended = run(file, *named, folder=tmp_path)
        assert ended.returncode == 0, ended.stderr
        assert f"on the {whose} word: the released numbers" in ended.stdout
    ended = run(file, *first, folder=tmp_path)  # the other part may be anybody's
    assert (ended.returncode, ended.stdout) == (4, "")


def test_the_signature_of_one_of_two_aggregators_is_left_out(tmp_path, caplog):
    grid = split_federation.federation()
    key_of(grid, split_federation.FIRST, OTHER, tmp_path)
    report = verified(split_federation.monitor(threshold=0.05).check(grid).to_json())
    assert report.evidence.aggregators == ()
    assert "drift-identity" in caplog.text


def test_a_refused_file_writes_nothing_to_the_terminal_but_words(text, tmp_path):
    content = json.loads(text)
    for number, forged in enumerate((
        {**content, "\x1b[2K\x1b[1Gverified": 1},
        changed(text, "evidence/version", "1\x1b[1A\nverified: check"),
    )):  # fmt: skip
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(forged) if number == 0 else resigned(forged))
        ended = run(file, folder=tmp_path)
        assert (ended.returncode, ended.stdout) == (4, "")
        assert "\x1b" not in ended.stderr
        assert not re.search("^verified", ended.stderr, re.MULTILINE)


@pytest.mark.parametrize(
    "turn",
    [
        lambda s: s.replace("T", "\x1b"),
        lambda s: s[:-6],
        lambda s: s[:10],
        lambda s: "today",
        lambda s: "0001-01-01T00:00:00+14:00",
    ],
)
def test_a_date_has_one_form(text, turn):
    started = json.loads(text)["started"]
    with pytest.raises(NotVerified, match="date"):
        verified(resigned(changed(text, "started", turn(started))))


def test_a_server_refuses_numbers_that_their_aggregator_did_not_sign(tmp_path):
    grid = sealed_federation.federation()
    key_of(grid, sealed_federation.AGGREGATOR, OTHER, tmp_path)
    pull = grid.pull_messages

    def meddled(ids):
        replies = list(pull(ids))
        for reply in replies:
            if reply.has_content() and "signed" in reply.content:
                reply.content["signed"]["signature"] = "00" * 64
        return replies

    grid.pull_messages = meddled
    with pytest.raises(CheckFailed, match="signature"):
        sealed_federation.monitor().check(grid)


def test_without_a_key_reports_are_as_before(monkeypatch):
    monkeypatch.delenv("FLWR_KLD_SIGNING_KEY")
    report = KLDrift(REFERENCE, Trusted(3.0), threshold=0.05).check(grid_of())
    assert report.evidence is None
    assert "evidence" not in report.to_dict()
    with pytest.raises(NotVerified, match="not signed"):
        verified(report.to_json())


def test_a_key_that_cannot_be_used_stops_a_check_before_anybody_is_asked(server, monkeypatch):
    grid = sealed_federation.WatchedGrid(app_of(), 20)
    server.chmod(0o644)
    for place in (str(server), "server.key"):
        monkeypatch.setenv("FLWR_KLD_SIGNING_KEY", place)
        with pytest.raises(ValueError, match=r"mode to 0600|absolute path"):
            KLDrift(REFERENCE, Trusted(3.0)).check(grid)
    assert grid.sent == []


# ----------------------------------------------------------------------------------- receipts


@pytest.fixture
def guarded(limits, tmp_path):
    """A report, and the folder of the receipts that nodes wrote of it."""
    limits()
    report = plain().check(grid_of())
    folder = tmp_path / "copies"
    folder.mkdir()
    shutil.copy(tmp_path / "receipts.db", folder / "clinic.db")
    return report, folder


def test_receipts_of_the_check_are_held_against_it(guarded, tmp_path):
    report, folder = guarded
    terms = require_verified(report)
    found = receipts_of(terms, folder)
    assert len(found) == 20
    file = tmp_path / "report.json"
    file.write_text(report.to_json())
    ((node, _), *_) = found
    for named in (True, False):  # anybody can make receipts by a key of their own
        public = ("--public", node.hex()) if named else ()
        ended = run(file, "--receipts", folder, *public, folder=tmp_path)
        assert (ended.returncode, ended.stderr) == (0, "")
        (line,) = (one for one in ended.stdout.splitlines() if "20 receipts" in one)
        assert line.startswith("proved") == named
        assert (node.hex() in line) != named
    ended = run(file, "--receipts", folder, "--public", "00" * 32, folder=tmp_path)
    assert ended.returncode == 4


def test_receipts_that_do_not_fit_are_refused(guarded, tmp_path):
    report, folder = guarded
    terms = require_verified(report)
    for other in (
        replace(terms, check="0" * 16),
        replace(terms, plan="0" * 64),
        replace(terms, until=terms.until + 1),
        replace(terms, guarantee=replace(terms.guarantee, epsilon=0.5)),
    ):
        with pytest.raises(NotVerified):
            receipts_of(other, folder)
    with pytest.raises(NotVerified):
        receipts_of(replace(terms, asked=19), folder)
    (folder / "other.db").write_bytes(b"no database")
    with pytest.raises(NotVerified, match=r"other\.db"):
        receipts_of(terms, folder)
    with pytest.raises(NotVerified, match="no receipts"):
        receipts_of(terms, tmp_path / "empty")
