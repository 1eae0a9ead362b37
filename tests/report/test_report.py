"""Reports as files: complete, self-contained, readable without the network."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest
from report.samples import REPORT, STATISTICS, altered, decided, in_notebook, learnt
from report.tables import drifted

from flwr_kld.infer.estimators.result import ErrorSplit
from flwr_kld.infer.upper_limit import EPSILON
from flwr_kld.report import Outcome
from flwr_kld.report.column import Move
from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries
from flwr_kld.views.text import next_step

CHECKS = [
    Point(1, REPORT, cohort_truth=0.26),
    Point(2, None, cohort_truth=0.3, failure="refused: the budget is spent"),
    Point(3, altered(REPORT, note="the published numbers contradict each other")),
    Point(4, altered(REPORT, estimate=0.5, error=ErrorSplit(0.0, 0.0, 0.04)), cohort_truth=0.55),
    Point(5, decided(Outcome.DRIFT, 0.2, estimate=0.5)),
    Point(6, None, failure="it has not ended", started=REPORT.started, ended=False),
]


def test_error_is_the_root_of_the_sum_of_squares():
    assert REPORT.reading.deviation == pytest.approx(0.05)
    assert CHECKS[3].report.reading.deviation == pytest.approx(0.04)


def test_html_is_self_contained_and_escapes_what_clients_sent(tmp_path: Path):
    page = tmp_path / "report.html"
    CheckSeries(CHECKS, drift_from=4).save(page, title="Checks & balances")
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(?!data:|#)", text)
    assert "Checks &amp; balances" in text
    assert "<b>injected" not in text
    assert "&lt;b&gt;injected" in text
    assert "0.500 ± 0.050" in text
    assert "<td>0.500 ± 0.040" in text
    assert "failed: no number was released" in text
    assert "ε = 1 nats, δ = 0" in text


@pytest.mark.usefixtures("no_plots")
def test_html_without_a_single_report_and_with_seeded_noise(tmp_path: Path):
    page = tmp_path / "report.html"
    CheckSeries([Point(1, None)]).save(page, title="t")
    assert "No check succeeded" in page.read_text()
    CheckSeries([Point(1, altered(REPORT, private=False))]).save(page, title="t")
    assert "NOT PRIVATE" in page.read_text()


def test_csv_and_json(tmp_path: Path):
    CheckSeries(CHECKS).save(tmp_path / "c.csv")
    rows = list(csv.DictReader((tmp_path / "c.csv").open()))
    assert [r["number"] for r in rows] == ["1", "2", "3", "4", "5", "6"]
    assert [r["ended"] for r in rows] == ["True"] * 5 + ["False"]
    assert [r["started"] for r in rows] == [c.started or "" for c in CHECKS]
    told = [rows[0][name] for name in ("estimate", "deviation", "of", "cohort_truth")]
    assert told == ["0.25", "0.05", "cohort", "0.26"]
    assert rows[1]["estimate"] == rows[0]["reading.population_estimate"] == ""
    assert [r["failure"] for r in rows] == [
        "",
        "refused: the budget is spent",
        "",
        "",
        "",
        "it has not ended",
    ]
    names = ("outcome", "lower_bound", "verdict.threshold", "cost.left")
    decision = [rows[4][name] for name in names]
    assert decision == ["drift", "0.2", "0.1", "0.5"]
    CheckSeries(CHECKS).save(tmp_path / "c.json")
    assert list(CheckSeries.from_json((tmp_path / "c.json").read_text())) == CHECKS


@pytest.mark.parametrize("name", ["history.png", "history.svg"])
def test_plots(tmp_path: Path, name: str):
    CheckSeries(CHECKS, drift_from=4).save(tmp_path / name, title="t")
    assert (tmp_path / name).stat().st_size > 5000
    CheckSeries([None]).plot(tmp_path / name)


def test_a_missing_extra_is_named(tmp_path: Path, without):
    without("matplotlib.figure")
    with pytest.raises(ImportError, match=r"flwr-kld\[plots\]"):
        CheckSeries(CHECKS).plot(tmp_path / "history.png")


OF_BOTH = altered(
    REPORT, population_estimate=0.125, population_deviation=0.02,
    drawn_from="the clients that these 18 were drawn from", counted="these 18 clients",
)  # fmt: skip


def test_the_population_is_named_before_the_cohort(tmp_path: Path):
    text = " ".join(str(OF_BOTH).split())
    assert text.index("0.125 ± 0.020") < text.index("0.250 ± 0.050")
    assert "the clients that these 18 were drawn from" in text
    CheckSeries([OF_BOTH]).save(tmp_path / "c.csv")
    (row,) = csv.DictReader((tmp_path / "c.csv").open())
    names = ("estimate", "deviation", "of", "reading.estimate", "reading.drawn_from")
    assert [row[name] for name in names] == [
        "0.125", "0.02", "population", "0.25", "the clients that these 18 were drawn from",
    ]  # fmt: skip


def test_a_notebook_shows_the_decision_and_no_markup():
    shown = in_notebook(decided(Outcome.DRIFT, 0.2, dropouts={"refused: <b>injected</b>": 1}))
    assert shown.startswith("<pre>ALARM: labels.\n")
    assert "&lt;b&gt;injected" in shown
    table = in_notebook(drifted())
    assert "age &lt;years&gt;" in table.split("<pre>")[1]


def test_a_report_is_one_line_where_values_are_shown():
    for report in (REPORT, drifted(), STATISTICS, learnt(2)):
        assert report.summary in repr(report)
        assert report.started[:10] in repr(report)
        assert len(repr(report).splitlines()) == 1
        assert len(repr(report)) < 250


def test_what_is_next_names_what_a_node_and_an_operator_can_do():
    moved = decided(Outcome.NO_DRIFT, 0.0)
    rain = Move("rain", 0.1, 0.3, 0.2, 0.4, 0.1)
    columns = {n: replace(c, moved=(rain,)) for n, c in moved.columns.items()}
    assert "report --mine" in next_step(replace(moved, columns=columns))
    assert "report --mine" not in next_step(moved)
    for nights, is_named in ((1, True), (365, False)):  # a session's checks share one epsilon
        few = decided(Outcome.INCONCLUSIVE, 0.0)
        few = replace(few, cost=replace(few.cost, night=1, nights=nights))
        wanting = {
            n: replace(c, verdict=replace(c.verdict, resolve=f"9 times the {EPSILON}"))
            for n, c in few.columns.items()
        }
        assert ("Rarer checks" in next_step(replace(few, columns=wanting))) == is_named
