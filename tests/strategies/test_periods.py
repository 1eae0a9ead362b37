"""Checks of the records of a period: each node selects them, record by record."""

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from io import StringIO
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from session_nights import TOMORROW

from flwr_kld import Binned, Dialect, Reference, Table
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.period import asked_period, of_period
from flwr_kld.clients import answer_drift_queries, node_records
from flwr_kld.clients.records_of_node import load_records
from flwr_kld.common.errors import CheckFailed, QueryRefused
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.report import Report
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import (
    KLDrift,
    Period,
    SinceLastCheck,
    Trusted,
)
from flwr_kld.trust.terms import Terms
from flwr_kld.views import CheckSeries
from flwr_kld.views.text import check_lines as report_lines

TABLE = Table({"age": Binned([30.0, 50.0, 70.0])})
REFERENCE = Reference.from_counts(TABLE, {"age": [300, 300, 300, 100, 0]})
JUNE = Period("visited", "2024-06-01", "2024-07-01")
TRUST = Trusted(epsilon=10.0)


def visits(node: int, old: int = 100, new: int = 60) -> dict[str, list[object]]:
    """In May a node's people are as the reference says; in June all are over 70."""
    rng = np.random.default_rng(node)
    ages = rng.choice([20, 40, 60, 80], old, p=[0.3, 0.3, 0.3, 0.1]).tolist() + [90] * new
    days = [f"2024-05-{1 + i % 31:02}" for i in range(old)]
    return {
        "age": ages,
        "visited": days + [f"2024-06-{1 + i % 30:02}T23:59" for i in range(new)],
        "id": list(range(old + new)),
    }


def federation(**options):
    app = ClientApp()

    def rows(context: Context):
        return visits(context.node_id % 2**32)

    answer_drift_queries(
        app, rows, TABLE, record_ids=lambda context: rows(context)["id"], **options
    )
    return InProcessGrid(app, 40)


@pytest.fixture(scope="module")
def june() -> Report:
    return KLDrift(REFERENCE, TRUST, threshold=0.05, period=JUNE).check(federation())


def test_a_check_is_of_the_records_of_its_period(june):
    assert june.reading.records == pytest.approx(40 * 60, rel=0.1)
    assert june.columns["age"].histogram.clients[3] > 0.9
    may = Period("visited", "2024-05-01", "2024-06-01")
    calm = KLDrift(REFERENCE, TRUST, threshold=0.05, period=may).check(federation())
    assert calm.outcome is not Outcome.DRIFT
    assert calm.columns["age"].histogram.clients[3] < 0.3


def to_text(series: CheckSeries) -> str:
    text = StringIO()
    Console(file=text, width=200).print(series.table(title="checks"))
    return text.getvalue()


@pytest.mark.usefixtures("no_plots")
def test_whoever_reads_it_sees_the_period(june):
    assert june.period == JUNE
    assert Report.from_json(june.to_json()) == june
    assert json.loads(june.to_json())["period"]["end"] == "2024-07-01"
    assert str(JUNE) in str(june)
    assert any(str(JUNE) in line for line in report_lines(june))
    assert str(JUNE) in CheckSeries([june]).to_html()
    series = CheckSeries([june])
    assert "2024-06-01 – 2024-07-01" in to_text(series)
    assert series.to_frame().loc[0, "period.start"] == "2024-06-01"


def test_the_axis_of_a_history_shows_the_periods(june):
    figure = CheckSeries([june]).plot()
    figure.canvas.draw()
    axes = figure.axes[-1]
    assert "period" in axes.get_xlabel()
    assert any("Jun 2024" in label.get_text() for label in axes.get_xticklabels())


def test_what_is_no_period_of_checks_is_refused():
    with pytest.raises(ValueError, match="SinceLastCheck"):
        KLDrift(REFERENCE, TRUST, period="since last check")


def terms(period: Period | None) -> Terms:
    plan = Partition().draw(REFERENCE, np.random.default_rng(0)).of(period)
    return TRUST.terms(plan, check="c", asked=40, until=TOMORROW)


@pytest.mark.parametrize("trust", [TRUST, Trusted(20.0, protects=WholeClients(50))])
def test_no_number_of_records_in_a_period_is_public(trust):
    """Only noised counts say it, under either protection; not even who has none, or the most."""
    monitor = KLDrift(REFERENCE, trust, period=JUNE)
    reports = [monitor.check(federation()) for _ in range(3)]
    assert len({report.reading.records for report in reports}) > 1
    for report in reports:
        assert report.one_client.name is None


def test_whole_clients_count_records_of_the_period_up_to_their_limit():
    """The period is selected before the limit: else few of 160 records would be of June."""
    trust = Trusted(200.0, protects=WholeClients(60))
    report = KLDrift(REFERENCE, trust, period=JUNE).check(federation())
    assert report.reading.records == pytest.approx(40 * 60, rel=0.05)


def test_the_period_is_in_the_fingerprint_of_the_terms():
    other = Period("visited", "2024-06-01", "2024-07-02")
    prints = {terms(period).fingerprint for period in (None, JUNE, other)}
    assert len(prints) == 3


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.datetimes(), st.just(float("nan")), st.just(object()), st.just([]), st.just("2024-06-15"),
)  # fmt: skip


@given(odd=ODD, place=st.integers(0, 3), dates=st.sampled_from(["iso", "day-first"]))
def test_no_records_time_moves_another_record_in_or_out(odd, place, dates):
    days = ["2024-05-31", "2024-06-01", "2024-06-30T23:59:59", "2024-07-01"]
    usual = JUNE.holds({"visited": list(days)}, Dialect(dates=dates))
    assert usual.tolist() == [False, True, True, False]
    days[place] = odd
    found = JUNE.holds({"visited": days}, Dialect(dates=dates))
    rest = [i for i in range(4) if i != place]
    assert found[rest].tolist() == usual[rest].tolist()


def test_times_are_read_as_the_dialect_says():
    rows = {"visited": ["03.06.2024", "06.03.2024", "", "x"]}
    assert JUNE.holds(rows, Dialect(dates="day-first")).tolist() == [True, False, False, False]
    assert JUNE.holds(rows, Dialect(dates="month-first")).tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    "ends", [("2024-06-01", "2024-06-01"), ("2024-06-02", "2024-06-01"), ("June", "July"),
             ("2024-06-01T00:00Z", "2024-07-01"), ("2024-06-01", None)],
)  # fmt: skip
def test_what_is_no_period_is_refused(ends):
    with pytest.raises(ValueError, match="period"):
        Period("visited", *ends)


@pytest.mark.parametrize("column", ["", 3, None, "x" * 1000])
def test_what_is_no_column_is_refused(column):
    for make in (
        lambda: Period(column, "2024-06-01", "2024-07-01"),
        lambda: SinceLastCheck(column),
    ):
        with pytest.raises(ValueError, match="column"):
            make()


def test_one_period_follows_another():
    now = datetime(2024, 6, 10, 3, tzinfo=UTC)
    rule = SinceLastCheck("visited")
    assert rule.next(None, now) == Period("visited", "2024-06-08", "2024-06-09")
    last = Period("visited", "2024-06-05", "2024-06-07")
    assert rule.next(last, now) == Period("visited", "2024-06-07", "2024-06-09")
    assert SinceLastCheck("visited", lag=2).next(None, now) == Period(
        "visited", "2024-06-07", "2024-06-08"
    )
    assert rule.next(Period("other", "2024-06-05", "2024-06-10"), now).start == "2024-06-08"
    with pytest.raises(CheckFailed, match="day"):
        rule.next(Period("visited", "2024-06-05", "2024-06-09"), now)
    for wrong in ({"lag": 0}, {"lag": -1, "zone": "UTC"}, {"zone": "Mars"}, {"zone": 3}):
        with pytest.raises(ValueError, match=r"lag|zone"):
            SinceLastCheck("visited", **wrong)


@pytest.mark.parametrize("at", [0, 10, 20])
@pytest.mark.parametrize(
    ("clock", "rule"),
    [
        *((f"Etc/GMT{-hours:+d}", SinceLastCheck("t")) for hours in range(-12, 15, 13)),
        ("America/New_York", SinceLastCheck("t")),
        ("America/New_York", SinceLastCheck("t", lag=0, zone="America/New_York")),
        ("Australia/Lord_Howe", SinceLastCheck("t", lag=0, zone="Australia/Lord_Howe")),
    ],
    ids=str,
)  # fmt: skip
def test_each_row_is_counted_once_wherever_its_clock_is(clock, rule, at):
    """Over 60 nights, with summer time, three nights that failed, and clocks minutes off."""
    first, last, counted = datetime(2026, 3, 1, tzinfo=UTC), None, np.zeros(3000, dtype=int)
    rng = np.random.default_rng(0)
    came = [first + timedelta(minutes=float(m)) for m in np.sort(rng.uniform(0, 62 * 1440, 3000))]
    own = [moment.astimezone(ZoneInfo(clock)).replace(tzinfo=None) for moment in came]
    came, told = (np.array([at.replace(tzinfo=None) for at in each]) for each in (came, own))
    for night in range(3, 63):
        now = first + timedelta(days=night, hours=at, minutes=float(rng.uniform(1, 9)))
        if night in (9, 20, 21):
            continue
        last = rule.next(last, now)
        ends = datetime.fromisoformat(last.start), datetime.fromisoformat(last.end)
        here = came <= (now - timedelta(minutes=1)).replace(tzinfo=None)
        counted += here & (ends[0] <= told) & (told < ends[1])
    inner = (datetime(2026, 3, 5) <= told) & (told < datetime(2026, 4, 28))
    assert set(counted[inner]) == {1}
    assert {at.hour for at in told[inner]} == set(range(24))


def test_a_ledger_knows_where_the_last_period_ended(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path}/drift.db")
    ledger.set_budget(Budget(epsilon=100.0, delta=1e-6, window_days=30))
    grid, today = federation(), datetime.now(UTC).date()

    def monitor(rule: Period | SinceLastCheck) -> KLDrift:
        return KLDrift(REFERENCE, TRUST, period=rule, ledger=ledger)

    since = SinceLastCheck("visited")

    decade = Period("visited", str(today - timedelta(days=3650)), str(today))
    first = monitor(decade).check(grid)
    assert first.reading.records == pytest.approx(40 * 160, rel=0.1)
    with pytest.raises(CheckFailed, match="day"):
        monitor(since).check(grid)
    assert ledger.spent().epsilon == pytest.approx(10.0, rel=1e-4)
    later = datetime.now(UTC) + timedelta(days=2)

    class InTwoDays(SinceLastCheck):
        def next(self, last, now=None):
            return super().next(last, later)

    second = monitor(InTwoDays("visited")).check(grid)
    assert second.period == Period("visited", str(today), str(today + timedelta(days=1)))
    assert abs(second.reading.records) < 100  # nobody came: noise alone


def test_an_empty_period_is_answered_and_names_nobody():
    """Whether a client has records in a period is hidden: it answers with none."""
    never = Period("visited", "1990-01-01", "1990-02-01")
    report = KLDrift(REFERENCE, TRUST, period=never).check(federation())
    assert report.cohort.survivors == 40
    assert not report.cohort.dropouts


def test_a_column_that_is_not_there_is_refused_in_public_words():
    nowhere = Period("arrived", "2024-06-01", "2024-07-01")
    with pytest.raises(CheckFailed, match="arrived"):
        KLDrift(REFERENCE, TRUST, period=nowhere).check(federation())


@pytest.fixture
def database(tmp_path):
    file = tmp_path / "visits.db"
    with closing(sqlite3.connect(file)) as held:
        held.execute("CREATE TABLE visits (age, visited)")
        days = ["2024-05-31", "2024-06-01", "2024-06-30 23:59:59", "2024-07-01", None, b"\xff"]
        held.executemany("INSERT INTO visits VALUES (?, ?)", [(20, day) for day in days])
        held.commit()
    return f"sqlite:///{file}"


QUERY = "SELECT age, visited, '12:30' AS at FROM visits WHERE visited >= {from} AND visited < {to}"


def test_a_database_selects_by_the_ends_of_the_period(database):
    config = {"drift-records": database, "drift-query": QUERY}
    with of_period(JUNE):
        assert asked_period() == JUNE
        rows = load_records(config)
    assert rows["visited"] == ["2024-06-01", "2024-06-30 23:59:59"]
    assert rows["at"] == ["12:30"] * 2
    assert asked_period() is None


@pytest.mark.parametrize(
    ("query", "period"), [(QUERY, None), (QUERY.replace("{to}", "'2024'"), JUNE)]
)
def test_a_query_of_periods_answers_no_other_check(database, query, period, caplog):
    with of_period(period), pytest.raises(QueryRefused, match="DomainError"):
        load_records({"drift-records": database, "drift-query": query})
    assert "{from} and {to}" in caplog.text


def test_a_check_of_a_period_goes_through_a_nodes_database(database):
    """May is not selected, though the database keeps it; the column itself is not checked."""
    app = ClientApp()

    def rows(context: Context):
        named = {"drift-records": database, "drift-query": QUERY}
        return node_records(Context(0, 1, named, RecordDict(), {}), TABLE)

    answer_drift_queries(app, rows, TABLE)
    monitor = KLDrift(REFERENCE, TRUST, period=JUNE)
    report = monitor.check(InProcessGrid(app, 100))
    assert report.reading.records == pytest.approx(200, abs=30)
