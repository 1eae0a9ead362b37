"""Every kind of report is seen in the same ways: line, text, notebook, page, plot, frame, files."""

import json
import re
from functools import cache

import pytest
from report.samples import REPORT, STATISTICS, in_notebook, learnt
from report.tables import drifted

from flwr_kld import Binned, Labels, Reference, Table
from flwr_kld.planner import Setting, forecast
from flwr_kld.report import Survival
from flwr_kld.report.discovery_report import Discovered, DiscoveryReport, FoundLabel
from flwr_kld.simulations import simulate
from flwr_kld.strategies import KLDrift, Statistics, Trusted
from flwr_kld.views import CheckSeries, RoundSeries

DIED = Survival("months", "died", by="arm")
LIVES = Table(
    {"months": Binned([0.0, 5.0, 9.0]), "died": Labels(["no", "yes"]), "arm": ["old", "new"]},
    interactions=[DIED.columns],
)
FRUIT = Reference.from_counts(Labels(["a <b>", "c"]), [5, 5])


def survival():
    rows = {"months": [3.0, 7.0] * 200, "died": ["yes", "no"] * 200, "arm": ["old", "new"] * 200}
    return DIED.of(
        simulate(Statistics(LIVES, Trusted(3.0, 1e-6)), lambda _: rows, clients=3), LIVES
    )


def discovery(*labels):
    found = Discovered("job", tuple(FoundLabel(name, 40.0, 31.0, 49.0) for name in labels), 20, 33)
    shared = ("started", "guarantee", "cohort", "cost", "protection", "one_client")
    return DiscoveryReport(reading=found, **{name: getattr(REPORT, name) for name in shared})


def forecast_of(reference):
    return forecast(reference, Setting(clients=200, records=50, trust=Trusted(1.0), threshold=0.05))


KINDS = {
    "check": lambda: REPORT,
    "check of a table": drifted,
    "simulated check": lambda: simulate(KLDrift(FRUIT, Trusted(1.0)), ["c"] * 90, clients=3),
    "statistics": lambda: STATISTICS,
    "round": lambda: learnt(1),
    "discovery": lambda: discovery("baker", "<b>"),
    "discovery of nothing": discovery,
    "survival": survival,
    "forecast": lambda: forecast_of(FRUIT),
    "comparison of checks": lambda: drifted().compare(drifted()),
    "comparison of statistics": lambda: STATISTICS.compare(STATISTICS),
    "history": lambda: CheckSeries([REPORT, REPORT]),
    "rounds": lambda: RoundSeries([learnt(1), learnt(2)]),
}


@cache
def report_of(kind):
    return KINDS[kind]()


@pytest.fixture(params=KINDS)
def report(request):
    return report_of(request.param)


def test_it_is_one_line_in_a_console(report):
    assert re.fullmatch(r"<\w+.*>", repr(report))
    assert len(repr(report)) < 200


def test_a_notebook_shows_it_with_names_escaped(report):
    shown = in_notebook(report)
    assert shown.startswith("<pre>")
    assert "<b>" not in shown


def test_it_is_drawn_on_every_kind_of_screen(report, tmp_path):
    for dark, narrow in ((False, False), (True, True)):
        file = tmp_path / f"{dark}.png"
        figure = report.plot(file, dark=dark, narrow=narrow)
        assert file.stat().st_size > 3000
        assert figure.axes


def test_it_is_a_frame(report):
    assert len(report.to_frame().columns) > 1 or not len(report.to_frame())


@pytest.mark.usefixtures("no_plots")
def test_it_is_saved_in_every_form(report, tmp_path):
    for ending in (".html", ".csv", ".json"):
        report.save(tmp_path / f"report{ending}")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<b>" not in page
    json.loads((tmp_path / "report.json").read_text())
    with pytest.raises(ValueError, match=r"\.html"):
        report.save(tmp_path / "report.docx")


def test_a_single_report_says_in_text_what_its_line_says(report):
    if not isinstance(report, CheckSeries | RoundSeries):
        assert " ".join(str(report).split()).startswith(report.summary)
