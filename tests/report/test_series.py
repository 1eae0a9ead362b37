"""A series of reports: what it is made of, and where it is shown."""

import io
from dataclasses import replace

import pytest
from report.samples import REPORT, decided, in_notebook, learnt, mornings, nights
from rich.console import Console

from flwr_kld.report import Outcome
from flwr_kld.report.column import CellCounts
from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries, RoundSeries
from flwr_kld.views.files import FORMATS

CHECKS, ROUNDS = CheckSeries(nights(6, drift_from=5)), RoundSeries(mornings(6, change_at=5))


def printed(series, **options) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(series.table(**options))
    return text.getvalue()


def test_reports_alone_are_numbered_from_1():
    series = CheckSeries([REPORT, None, REPORT])
    assert list(series) == [Point(1, REPORT), Point(2, None), Point(3, REPORT)]
    assert series.reports == [REPORT, REPORT]
    assert len(series) == 3


@pytest.mark.parametrize("series", [CHECKS, ROUNDS], ids=["checks", "rounds"])
def test_json_is_read_back(series):
    again = type(series).from_json(series.to_json())
    assert list(again) == list(series)


def test_a_series_of_checks_takes_no_rounds():
    with pytest.raises(ValueError, match="check"):
        CheckSeries.from_json(ROUNDS.to_json())
    with pytest.raises(ValueError, match="round"):
        RoundSeries.from_json(CHECKS.to_json())


def test_two_sessions_side_by_side_are_not_read_as_one():
    def on(*numbers: int) -> list[str]:
        """Since when two counts have changed, which jumped after night 2."""
        reports = []
        for night in numbers:
            report, counts = decided(Outcome.DRIFT, 0.2), (100 + 90 * (night > 2), 100)
            column = replace(
                report.columns[report.column], counts=CellCounts(counts, 2.0, None, "record")
            )
            cost = replace(report.cost, night=night, nights=9)
            reports.append(replace(report, cost=cost, columns={report.column: column}))
        return CheckSeries(reports).since

    assert "since night 3" in on(1, 2, 3, 4)[0]
    assert "since night 3" in on(4, 5, 1, 2, 3, 4)[0]
    assert on(1, 1, 2, 2, 3, 3, 4, 4) == []


def test_names_are_neither_markup_nor_tags():
    rounds = RoundSeries([learnt(1, "[red]<script>")])
    assert "&lt;script&gt;" in in_notebook(rounds)
    assert "<script>" not in in_notebook(rounds)
    assert "[red]<script>" in printed(rounds)
    report = decided(Outcome.DRIFT, 0.2, key="<b>[/]")
    assert "<b>" not in in_notebook(CheckSeries([report]))
    assert "<b>[/]" in printed(CheckSeries([report]))
    assert "[/]" in printed(CHECKS, title="Checks of [/]")


@pytest.mark.usefixtures("no_plots")
@pytest.mark.parametrize("series", [CHECKS, ROUNDS], ids=["checks", "rounds"])
def test_the_ending_says_what_is_saved(series, tmp_path):
    for ending in FORMATS:
        series.save(tmp_path / f"s{ending}", title="Fleet")
    assert (tmp_path / "s.html").read_text() == series.to_html(title="Fleet")
    assert (tmp_path / "s.csv").read_bytes().decode() == series.to_csv()
    assert (tmp_path / "s.json").read_text() == series.to_json()
    with pytest.raises(ValueError, match=r"\.html"):
        series.save(tmp_path / "s.pdf")
    assert f"<title>{series.heading}</title>" in series.to_html()
