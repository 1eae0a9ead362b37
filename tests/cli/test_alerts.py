"""``flwr-kld alerts``: who is told, and how it ends."""

from report.samples import decided

from flwr_kld.report import Outcome


def test_a_drift_is_told_once_and_its_end_too(cli, url, settled, alerts_file, tmp_path):
    settled("1", decided(Outcome.DRIFT, 0.2).to_dict())
    done = [cli("alerts", alerts_file(), "--ledger", url) for _ in range(2)]
    assert [(d.exit_code, d.stderr) for d in done] == [(0, "told log\n"), (0, "")]
    settled("2", decided(Outcome.NO_DRIFT, 0.0).to_dict())
    assert cli("alerts", alerts_file(), "--ledger", url).exit_code == 0
    first, second = (tmp_path / "log").read_text().splitlines()
    assert '"over": false' in first
    assert '"over": true' in second


def test_who_could_not_be_told_makes_it_an_error(cli, url, settled, alerts_file):
    settled("1", decided(Outcome.DRIFT, 0.2).to_dict())
    done = cli("alerts", alerts_file(code=1), "--ledger", url)
    assert done.exit_code == 4
    assert "log was not told: exit status 1" in done.stderr
    assert cli("alerts", alerts_file(), "--ledger", url).stderr == "told log\n"


def test_alerts_can_be_tried_without_a_drift(cli, url, alerts_file, tmp_path):
    assert cli("alerts", alerts_file(), "--ledger", url, "--try").exit_code == 0
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_a_trial_that_nobody_got_is_an_error(cli, url, alerts_file):
    done = cli("alerts", alerts_file(code=1), "--ledger", url, "--try")
    assert done.exit_code == 4
    assert "exit status 1" in done.stderr


def test_a_population_that_the_ledger_does_not_know_is_an_error(cli, url, alerts_file):
    done = cli("alerts", alerts_file(), "--ledger", url, "--population", "fleat")
    assert done.exit_code == 4
    assert "fleat" in done.stderr
