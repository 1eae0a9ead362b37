"""``flwr-kld alerts``: who is told, and how it ends."""

import json
import sys

import pytest
from report.samples import decided

from flwr_kld.report import Outcome

KEEPS = "import sys; print(sys.stdin.read(), file=open({log!r}, 'a')); sys.exit({code})"


@pytest.fixture
def file(tmp_path):
    def write(code: int = 0):
        path = tmp_path / "alerts.toml"
        keeps = KEEPS.format(log=str(tmp_path / "log"), code=code)
        argv = json.dumps([sys.executable, "-c", keeps])
        path.write_text(f'[[to]]\nname = "log"\nkind = "command"\nargv = {argv}\n')
        return path

    return write


def test_a_drift_is_told_once_and_its_end_too(cli, url, settled, file, tmp_path):
    settled("1", decided(Outcome.DRIFT, 0.2).to_dict())
    done = [cli("alerts", file(), "--ledger", url) for _ in range(2)]
    assert [(d.exit_code, d.stderr) for d in done] == [(0, "told log\n"), (0, "")]
    settled("2", decided(Outcome.NO_DRIFT, 0.0).to_dict())
    assert cli("alerts", file(), "--ledger", url).exit_code == 0
    first, second = (tmp_path / "log").read_text().splitlines()
    assert '"over": false' in first
    assert '"over": true' in second


def test_who_could_not_be_told_makes_it_an_error(cli, url, settled, file):
    settled("1", decided(Outcome.DRIFT, 0.2).to_dict())
    done = cli("alerts", file(code=1), "--ledger", url)
    assert done.exit_code == 4
    assert "log was not told: exit status 1" in done.stderr
    assert cli("alerts", file(), "--ledger", url).stderr == "told log\n"


def test_alerts_can_be_tried_without_a_drift(cli, url, file, tmp_path):
    assert cli("alerts", file(), "--ledger", url, "--try").exit_code == 0
    assert len((tmp_path / "log").read_text().splitlines()) == 2
