"""What ``flwr-kld init`` says that its app will find, and which choice finds more."""

from types import SimpleNamespace

import pytest

from flwr_kld.cli.foreseen import foreseen
from flwr_kld.trust.sealing import AggregatorKey


@pytest.fixture
def asked(monkeypatch):
    """The settings that are forecast; each forecast finds what the noise of its trust lets it."""
    settings = []

    def forecast(reference, setting):
        settings.append(setting)
        found = 0.25 if setting.trust.nights > 1 else None
        seen = 0.5 if setting.trust.guarantee.epsilon > 0.3 else None
        columns = [SimpleNamespace(smallest=found, seen_from=seen) for _ in reference.columns]
        return SimpleNamespace(by_column=columns)

    monkeypatch.setattr("flwr_kld.planner.forecast", forecast)
    monkeypatch.setattr("flwr_kld.cli.init.foreseen", foreseen)
    return settings


@pytest.fixture
def sample(tmp_path):
    rows = [f"{number},{number * 7 % 31}" for number in range(200)]
    file = tmp_path / "sample.csv"
    file.write_text("\n".join(["visit_nr,age", *rows]))
    return file


def test_it_says_what_checks_find_and_which_column_lets_them_find_more(
    cli, sample, asked, tmp_path
):
    done = cli("init", sample, "--out", tmp_path / "app", "--clients", 5)
    assert done.exit_code == 0, done.output
    now, better = done.stderr.splitlines()[-2:]
    assert "200 rows" in now
    assert "cannot find any drift" in now
    assert "--id visit_nr" in better
    assert "0.25 nats" in better
    assert [(one.clients, one.records) for one in asked] == [(5, pytest.approx(40))] * 2
    assert [one.trust.nights > 1 for one in asked] == [False, True]


def test_a_standing_session_is_forecast_alone(cli, sample, asked, tmp_path):
    done = cli("init", sample, "--out", tmp_path / "app", "--id", "visit_nr")
    assert done.exit_code == 0, done.output
    assert [one.trust.nights > 1 for one in asked] == [True]
    assert "0.25 nats" in done.stderr.splitlines()[-1]


def test_a_rarer_schedule_is_named_where_checks_exclude_nothing(cli, sample, asked, tmp_path):
    sample.write_text(sample.read_text().replace("visit_nr", "weight"))
    app, more = tmp_path / "app", ("--column", "age", "--epsilon", 1.5)
    done = cli("init", sample, "--out", app, *more, "--days", 28, "--schedule", "0 3 * * *")
    assert done.exit_code == 0, done.output
    assert (
        "--schedule '0 3 1 * *', once a month, with epsilon 0.75 each"
        in done.stderr.splitlines()[-1]
    )
    assert [one.trust.guarantee.epsilon for one in asked] == [0.051, 0.3, 0.75]


def test_of_many_columns_some_are_forecast_each_as_one_of_all(cli, asked, tmp_path):
    file, widths = tmp_path / "wide.csv", (2, 9, 3, 8, 4, 7, 5, 6, 10)
    names = [f"of {width}" for width in widths]
    rows = [",".join(f"value {row % width}" for width in widths) for row in range(360)]
    file.write_text("\n".join([",".join(names), *rows]))
    done = cli("init", file, "--out", tmp_path / "app")
    assert done.exit_code == 0, done.output
    assert "forecast of 6 of 9 columns" in done.stderr
    assert {one.trust.allotment.columns for one in asked} == {9}
    assert {one.threshold for one in asked} == {0.1}


def test_two_aggregators_are_forecast_with_their_noise(cli, sample, asked, tmp_path):
    keys = [AggregatorKey.generate().public.hex() for _ in range(2)]
    through = ("--trust", "two-aggregators", "--aggregator", keys[0], "--aggregator", keys[1])
    done = cli("init", sample, "--out", tmp_path / "app", "--column", "age", *through)
    assert done.exit_code == 0, done.output
    assert {one.trust.name for one in asked} == {"two-aggregators"}
