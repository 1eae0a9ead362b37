"""Notices of drifts and of failed checks: when they are sent, what they say, and their secrets."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from report.samples import decided
from report.tables import NAMES, drifted, table_report

from flwr_kld.cli import check as watching
from flwr_kld.cli.notices import Notifier, drift_notice
from flwr_kld.report import Outcome

DRIFT = decided(Outcome.DRIFT, 0.2).to_dict()


@pytest.fixture(autouse=True)
def notified(monkeypatch, receiver):
    monkeypatch.setenv("FLWR_KLD_NOTIFY", receiver.url)


@pytest.fixture
def file(tmp_path: Path, receiver) -> Path:
    """A file of two services, which only its owner reads."""
    file = tmp_path / "urls"
    file.touch(0o600)
    file.write_text(f"{receiver.url}\n{receiver.url}/second\n")
    return file


def test_a_notice_begins_with_date_columns_and_their_sentences():
    report = drifted()
    first, *others = drift_notice("night 1", report, None).splitlines()
    assert first == f"{report.started[:10]}: {report.summary}"
    assert NAMES[1] in first
    assert f"{NAMES[1]}: {report.columns[NAMES[1]].sentence}" in others
    assert "night 1" in others[-1]


def test_a_notice_links_to_the_live_page(cli, flwr, flower_app, receiver):
    pages = {"FLWR_KLD_PAGES": "https://drift.example.org/"}
    for key, environment in (("a", {}), ("b", pages)):
        flwr.will("settle", DRIFT if key == "b" else decided(Outcome.NO_DRIFT, 0.0).to_dict())
        cli("check", flower_app, "--key", key, **environment)
    (notice,) = receiver.notices
    assert "https://drift.example.org/checks?population=default" in str(notice)


def test_only_columns_that_had_not_drifted_make_a_notice():
    report, still = drifted(), table_report(dict.fromkeys(NAMES, 0.0))
    more = drifted(**{NAMES[2]: 0.3})
    assert drift_notice("n", report, report) is None
    assert drift_notice("n", report, more) is None
    assert drift_notice("n", report, still) is not None
    assert drift_notice("n", more, report) is not None


def test_a_drift_is_notified_once_and_again_after_its_end(cli, flwr, flower_app, receiver):
    calm, codes, counts = decided(Outcome.NO_DRIFT, 0.0).to_dict(), [], []
    nights = [("a", calm), ("b", DRIFT), ("c", DRIFT), ("b", DRIFT), ("d", calm), ("e", DRIFT)]
    for key, report in nights:
        flwr.will("settle", report)
        codes.append(cli("check", flower_app, "--key", key).exit_code)
        counts.append(len(receiver.notices))
    assert (codes, counts) == ([0, 1, 1, 1, 0, 1], [0, 1, 1, 1, 1, 2])


@pytest.mark.parametrize("gone", [SystemExit(1), OSError("no space is left")])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_notice_is_sent_even_if_the_check_cannot_be_printed(
    cli, flwr, flower_app, receiver, monkeypatch, more, gone
):
    def unread(*values, **options):
        raise gone

    monkeypatch.setattr(watching, "print_json", unread)
    monkeypatch.setattr(watching.results, "print", unread)
    flwr.will("settle", DRIFT)
    assert cli("check", flower_app, "--key", "a", *more).exit_code == 4
    assert len(receiver.notices) == 1


def test_notices_or_metrics_that_fail_do_not_change_the_exit_code(
    cli, flwr, flower_app, receiver, tmp_path
):
    receiver.statuses = [500]
    flwr.will("settle", DRIFT)
    file = tmp_path / "none" / "kld.prom"
    done = cli("check", flower_app, "--key", "a", "--metrics-file", file)
    assert done.exit_code == 1
    assert len(receiver.notices) == 1
    assert "no notice was sent" in done.stderr
    assert "T0K3N" not in done.output
    assert "metrics not written" in done.stderr


def test_a_service_that_is_not_one_is_refused_before_anybody_is_asked(
    cli, flwr, flower_app, environment
):
    environment["FLWR_KLD_NOTIFY"] = "nothing://T0K3N"
    done = cli("check", flower_app, "--key", "a")
    assert (done.exit_code, flwr.calls) == (4, [])
    assert "FLWR_KLD_NOTIFY" in done.stderr
    assert "T0K3N" not in done.output


def test_a_file_of_urls_takes_the_place_of_the_variable(
    cli, flwr, flower_app, receiver, file, environment
):
    environment["FLWR_KLD_NOTIFY"] = "nothing://"
    flwr.will("settle", DRIFT)
    assert cli("check", flower_app, "--key", "a", "--notify", file).exit_code == 1
    assert len(receiver.notices) == 2


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(cli, flwr, flower_app, file, mode):
    file.chmod(mode)
    done = cli("check", flower_app, "--key", "a", "--notify", file)
    assert (done.exit_code, flwr.calls) == (4, [])
    assert "chmod 600" in done.stderr
    assert "T0K3N" not in done.output


def test_one_service_that_refuses_leaves_the_other_its_notice(receiver, file):
    receiver.statuses = [500, 200]
    notifier = Notifier.of(file, {})
    assert notifier is not None
    (why,) = notifier.send("flwr-kld", "a notice")
    assert "URL 1" in why
    assert "T0K3N" not in why
    assert len(receiver.notices) == 2


def test_no_log_names_a_secret_and_no_name_becomes_markup(receiver, file, caplog):
    receiver.statuses = [500]
    notifier = Notifier.of(file, {})
    assert notifier is not None
    with caplog.at_level(logging.INFO):
        list(notifier.send("flwr-kld", "<!channel> *b* [x](https://evil.example) @here"))
    assert "T0K3N" not in caplog.text + repr(notifier)
    assert not set("<>[]@*") & set(receiver.notices[0])


def test_without_apprise_the_extra_is_named(cli, flwr, flower_app, without):
    without("apprise")
    done = cli("check", flower_app, "--key", "a")
    assert (done.exit_code, flwr.calls) == (4, [])
    assert "flwr-kld[alerts]" in done.stderr


def test_nobody_is_notified_unless_asked_for(receiver):
    assert Notifier.of(None, {}) is None
    assert Notifier.of(None, {"FLWR_KLD_NOTIFY": " "}) is None
