"""Published reports come back to nodes: what one stores, and what a lying server cannot do."""

import json
import logging
import os
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from federation import REFERENCE, app_of, basket, grid_of
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from guard.files import guard_file
from guarded_nodes import summed, summing
from report.samples import checksummed
from sealed_federation import WatchedGrid, federation, monitor

from flwr_kld.common.identity import Identity
from flwr_kld.report.node_comparison import stored_in
from flwr_kld.report.report import Report
from flwr_kld.strategies import KLDrift, Standing, Trusted

FIRST = 1000
"""The node that these tests are about."""


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


@pytest.fixture
def grid(folder):
    grid = grid_of(nodes=3)
    grid.contexts[FIRST].node_config["drift-reports"] = str(folder)
    return grid


def monitored(**options) -> KLDrift:
    return KLDrift(REFERENCE, Trusted(1.0), **options)


def send(grid, text: object, node: int = FIRST) -> RecordDict:
    """Send a node what is to be a report; return its answer."""
    record = text if isinstance(text, ArrayRecord) else ConfigRecord({"published_report": text})
    content = RecordDict({"published_report": record})
    (reply,) = grid.send_and_receive([Message(content, node, "query.drift_report")])
    assert not reply.has_error()
    return reply.content


def forged(report: Report, **changed) -> str:
    return json.dumps(checksummed({**report.to_dict(), **changed}))


def at(report: Report, moment: datetime) -> str:
    return forged(report, started=moment.isoformat(timespec="seconds"))


def stored(folder) -> Report:
    (file,) = folder.iterdir()
    assert [file] == stored_in(folder, REFERENCE.fingerprint)
    return Report.from_json(file.read_text())


# ---------------------------------------------------------------------------------- what comes back


@pytest.mark.parametrize("ask", [monitored, summed, monitor])
def test_each_node_that_was_counted_gets_the_report_and_says_nothing(folder, ask):
    grid = federation() if ask is monitor else grid_of(summing() if ask is summed else None)
    folder /= "made by the node"
    grid.contexts[FIRST].node_config["drift-reports"] = str(folder)
    checks = ask()
    report = checks.check(grid)
    assert checks.return_report(grid, report) == 20
    assert (stored(folder).check, stored(folder).columns) == (report.check, report.columns)
    assert send(grid, report.to_json()) == RecordDict()


def test_a_night_of_a_session_comes_back(folder, tmp_path, grid, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "flower"))
    grid.app = app_of(record_ids=lambda _: list(range(100)))
    trust = Standing(Trusted(1.0, 1e-6), 7, 2, book=str(tmp_path / "book.db"))
    session = KLDrift(REFERENCE, trust)
    report = session.check(grid)
    session.return_report(grid, report)
    assert stored(folder).check == report.check


def test_nothing_is_stored_unless_the_operator_names_a_folder(folder):
    grid, checks = grid_of(), monitored()
    assert checks.return_report(grid, checks.check(grid)) == 20
    assert not list(folder.iterdir())
    assert not any("report" in place for place in grid.contexts[FIRST].state)


def test_who_was_not_counted_is_not_sent_a_report(grid, folder):
    grid.lose = lambda m: m.metadata.dst_node_id == FIRST
    checks = monitored()
    report = checks.check(grid)
    grid.lose = lambda _: False
    assert checks.return_report(grid, report) == 2
    assert not list(folder.iterdir())


def test_silent_and_broken_nodes_are_not_waited_for(grid):
    checks = monitored(timeout=0.5)
    report = checks.check(grid)
    grid.lose = lambda m: m.metadata.dst_node_id > FIRST
    assert checks.return_report(grid, report) == 1


def test_the_newest_check_is_what_a_node_has(grid, folder, monkeypatch):
    checks = monitored()
    for day in range(3):
        report = checks.check(grid)
        text = at(report, datetime.now(UTC) - timedelta(hours=9 - day))
        send(grid, text)
        assert stored(folder).to_json() == Report.from_json(text).to_json()


def test_a_guarded_node_that_refuses_gets_nothing(grid, folder, tmp_path):
    guard = guard_file(tmp_path)  # of which checks ask 5 clients at least
    grid.contexts[FIRST].node_config["drift-guard"] = str(guard)
    checks = monitored()
    report = checks.check(grid)
    assert report.cohort.survivors == 2
    send(grid, report.to_json())
    assert not list(folder.iterdir())


def stands_in(text: str, word: str) -> bool:
    """Whether a text has it by itself: four digits are in many a hash, and in seconds."""
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w.])", text) is not None


@pytest.mark.parametrize("most_records", [None, 2000])
def test_what_is_about_another_client_alone_stays_on_the_server(
    folder, tmp_path, monkeypatch, most_records
):
    key = tmp_path / "server.key"
    key.touch(0o600)
    key.write_bytes(Identity.generate().to_bytes())
    monkeypatch.setenv("FLWR_KLD_SIGNING_KEY", str(key))
    grid = WatchedGrid(app_of(lambda c: basket(c, 1630 if c.node_id == FIRST else 310)), 4)
    grid.contexts[FIRST].node_config["drift-reports"] = str(folder)
    grid.contexts[1003].node_config["drift-guard"] = str(guard_file(tmp_path))
    checks = monitored(most_records=most_records)
    report = checks.check(grid)
    (reason,) = report.cohort.dropouts
    evidence, one = report.evidence, report.one_client
    alone = {reason, one.name, evidence.signature, evidence.sizes.holder}
    alone |= {json.dumps(one.share), json.dumps(evidence.sizes.largest)}
    assert {word for word in alone if stands_in(report.to_json(), word)} == alone
    grid.sent.clear()
    assert checks.return_report(grid, report) == 3
    assert len(grid.sent) == 3
    for value in grid.handled():
        assert not [word for word in alone if stands_in(str(value), word)]
    assert report.cohort.dropouts == {reason: 1}
    kept = stored(folder)
    assert kept.columns == report.columns
    assert kept.one_client.most_records == most_records


# ----------------------------------------------------------------------------------- a lying server


def nested(depth: int) -> str:
    return '{"a":' * depth + "0" + "}" * depth


def of_reference(report: Report, name: object) -> str:
    return forged(report, compared={**report.to_dict()["compared"], "reference": name})


NOW = datetime.now(UTC)
LIES = {
    "nothing": lambda r: "",
    "no JSON": lambda r: "\0\x1b[2J",
    "a number": lambda r: 7,
    "bytes": lambda r: r.to_json().encode(),
    "many": lambda r: [r.to_json()] * 2,
    "an array": lambda r: ArrayRecord(),
    "truncated": lambda r: r.to_json()[:-2],
    "a list": lambda r: f"[{r.to_json()}]",
    "too long": lambda r: r.to_json() + " " * (1 << 24),
    "nested": lambda r: nested(100_000),
    "an endless number": lambda r: "9" * 100_000,
    "a lone surrogate": lambda r: forged(r, key="\ud800"),
    "changed": lambda r: r.to_json().replace('"asked": 3', '"asked": 4'),
    "another kind": lambda r: forged(r, kind="statistics"),
    "another schema": lambda r: forged(r, schema=2),
    "a field more": lambda r: forged(r, path="/etc/passwd"),
    "another check": lambda r: forged(r, check="0" * 16),
    "a huge check": lambda r: forged(r, check="0" * 10**6),
    "another plan": lambda r: forged(r, compared={**r.to_dict()["compared"], "plan": "0" * 64}),
    "a path up": lambda r: of_reference(r, "../" * 5 + "0" * 64),
    "an absolute path": lambda r: of_reference(r, "/" + "0" * 63),
    "a hidden file": lambda r: of_reference(r, "." + "0" * 63),
    "an empty name": lambda r: of_reference(r, ""),
    "a line more": lambda r: of_reference(r, "0" * 64 + "\n"),
    "no text as a name": lambda r: of_reference(r, None),
    "tomorrow": lambda r: at(r, NOW + timedelta(days=2)),
    "a time to come": lambda r: at(r, NOW + timedelta(hours=2)),
    "the last year": lambda r: forged(r, started="9999-12-31T23:59:59-14:00"),
    "the first year": lambda r: forged(r, started="0001-01-01T00:00:00+14:00"),
    "no zone": lambda r: forged(r, started="2026-11-30T03:00:00"),
    "no time": lambda r: forged(r, started="\x1b[2Jtoday"),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_ignored_and_the_next_check_is_as_ever(grid, folder, lie, caplog):
    checks = monitored()
    good = checks.check(grid)
    checks.return_report(grid, good)
    before = {file: file.read_bytes() for file in folder.parent.rglob("*") if file.is_file()}
    later = checks.check(grid)
    caplog.clear()
    assert send(grid, LIES[lie](later)) == RecordDict()
    assert {f: f.read_bytes() for f in folder.parent.rglob("*") if f.is_file()} == before
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) < 1000
    again = checks.check(grid)
    assert again.cohort.survivors == 3
    checks.return_report(grid, again)
    assert stored(folder).check == again.check


def every_field(value: object, path: tuple = ()):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from every_field(inner, (*path, name))


def put(value, path, new):
    if not path:
        return new
    return {**value, path[0]: put(value[path[0]], path[1:], new)}


@pytest.mark.parametrize("new", [None, "../../x", -1, {}, "x" * 2000])
def test_no_field_of_a_report_makes_a_node_write_elsewhere_or_raise(grid, folder, new):
    checks = monitored()
    report = checks.check(grid)
    for path in every_field({k: v for k, v in report.to_dict().items() if k != "sha256"}):
        assert send(grid, json.dumps(checksummed(put(report.to_dict(), path, new)))) == RecordDict()
        for file in folder.parent.rglob("*"):
            assert file == folder or file.parent == folder
            assert not file.is_file() or Report.from_json(file.read_text())
    assert len(list(folder.iterdir())) <= 1
    assert checks.check(grid).cohort.survivors == 3


def test_an_older_report_is_never_put_back(grid, folder):
    other_run, checks, later = grid_of(nodes=3), monitored(), timedelta(minutes=30)
    other_run.contexts[FIRST].node_config["drift-reports"] = str(folder)
    withheld = monitored().check(other_run)
    first, second = (checks.check(grid) for _ in range(2))
    text = at(second, NOW)
    send(grid, text)
    kept = stored(folder).to_json()
    for run, replayed in (
        (grid, first.to_json()),
        (grid, text),
        (grid, at(second, NOW + later)),
        (other_run, withheld.to_json()),
        (other_run, at(withheld, NOW + later)),
    ):
        send(run, replayed)
        assert stored(folder).to_json() == kept
    third = checks.check(grid)
    send(grid, third.to_json())
    assert stored(folder).check == third.check


def test_no_date_that_a_server_gives_keeps_the_next_report_out(grid, folder):
    checks = monitored()
    for ahead in (timedelta(minutes=59), timedelta(days=-400), timedelta(0)):
        report = checks.check(grid)
        send(grid, at(report, datetime.now(UTC) + ahead))
        assert stored(folder).check == report.check


def test_a_clock_that_was_ahead_keeps_no_report_out(grid, folder, monkeypatch):
    checks, right = monitored(), time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: right() + 10**18)
        checks.return_report(grid, checks.check(grid))
        assert stored(folder).check
    report = checks.check(grid)
    checks.return_report(grid, report)
    assert stored(folder).check == report.check


@pytest.mark.parametrize(("of", "step"), [(os, "replace"), (Path, "glob"), (os, "unlink")])
@pytest.mark.parametrize("first", [0, 1])
def test_of_two_runs_that_return_reports_at_once_the_newer_stays(
    folder, of, step, first, monkeypatch
):
    """The other run's report comes while one is at a step; or after it, if it has none."""
    grids = [grid_of(nodes=3) for _ in range(2)]
    for grid in grids:
        grid.contexts[FIRST].node_config["drift-reports"] = str(folder)
    reports = [monitored().check(grid) for grid in grids]
    texts = [at(one, NOW - timedelta(hours=2 - age)) for age, one in enumerate(reports)]
    waiting, real = [1 - first], getattr(of, step)

    def meanwhile(*arguments, **options):
        while waiting:
            other = waiting.pop()
            send(grids[other], texts[other])
        return real(*arguments, **options)

    monkeypatch.setattr(of, step, meanwhile)
    send(grids[first], texts[first])
    meanwhile_is_over = not waiting
    if waiting:
        send(grids[waiting[0]], texts[waiting[0]])
    assert stored(folder).check == reports[1].check
    assert meanwhile_is_over or step == "unlink"


def test_a_backup_that_was_put_back_gives_way_to_what_is_newer(grid, folder):
    checks, texts = monitored(), []
    for hours in (3, 2, 1):
        report = checks.check(grid)
        texts.append(at(report, datetime.now(UTC) - timedelta(hours=hours)))
        send(grid, texts[-1])
    (file,) = folder.iterdir()
    file.write_text(Report.from_json(texts[0]).to_json())
    for replayed in texts:
        send(grid, replayed)
        assert stored(folder).to_json() == Report.from_json(texts[0]).to_json()
    file.write_text("")  # as after a power cut
    report = checks.check(grid)
    checks.return_report(grid, report)
    assert stored(folder).check == report.check


def test_reports_of_so_many_references_fill_no_disk(grid, folder):
    checks = monitored()
    for number in range(20):
        report = checks.check(grid)
        send(grid, of_reference(report, f"{number:064x}"))
    assert len(list(folder.iterdir())) == 8


@pytest.mark.parametrize("place", ["reports", 7, "/no/such/folder", "/dev/null"])
def test_a_folder_that_cannot_be_used_stops_no_check(grid, place, here):
    grid.contexts[FIRST].node_config["drift-reports"] = place
    checks = monitored()
    for _ in range(2):
        report = checks.check(grid)
        assert report.cohort.survivors == 3
        assert checks.return_report(grid, report) == 3
    assert not [file for file in here.rglob("*") if file.is_file()]


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Los_Angeles"])
def test_the_nodes_zone_does_not_matter(grid, folder, zone, monkeypatch):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        checks = monitored()
        for hours, offset in ((5, 14), (4, -12), (3, 0)):
            report = checks.check(grid)
            began = datetime.now(UTC) - timedelta(hours=hours)
            other = began.replace(tzinfo=None) + timedelta(hours=offset)
            send(grid, forged(report, started=f"{other:%Y-%m-%dT%H:%M:%S}{offset:+03d}:00"))
            assert stored(folder).check == report.check
        report, tomorrow = checks.check(grid), datetime.now(UTC) + timedelta(hours=2)
        send(grid, at(report, tomorrow))
        assert stored(folder).check != report.check
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_full_disk_keeps_what_was_there(grid, folder, monkeypatch):
    checks = monitored()
    checks.return_report(grid, checks.check(grid))
    kept = stored(folder).to_json()
    report = checks.check(grid)
    text = at(report, datetime.now(UTC) + timedelta(minutes=1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space")))
        send(grid, text)
    assert stored(folder).to_json() == kept
    send(grid, text)
    assert stored(folder).check == report.check
