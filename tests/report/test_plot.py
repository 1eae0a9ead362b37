"""The history plot says what the checks say."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.collections import PolyCollection
from report.samples import REPORT, altered, decided, nights
from report.tables import table_report

from flwr_kld.report import Outcome
from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries, panels


@pytest.fixture
def drawn(axes_of):
    """Draw a history; returns the figure's first and last axes, which may be the same."""

    def draw(checks, **options):
        axes = axes_of(CheckSeries(checks, **options))
        return axes[0], axes[-1]

    return draw


def texts(axes) -> list[str]:
    return sorted(axes.get_legend_handles_labels()[1])


def line(axes, label: str):
    handles, labels = axes.get_legend_handles_labels()
    return handles[labels.index(label)]


def test_every_kind_of_mark_is_where_its_check_is(drawn):
    above, below = drawn(nights(9, drift_from=7))
    assert texts(above) == [
        "alarm: drift", "cohort: at least", "cohort: estimate", "failed: no number",
        "threshold", "to at most",
    ]  # fmt: skip
    assert list(line(above, "alarm: drift").get_xdata()) == [7, 8, 9]
    assert list(line(above, "failed: no number").get_xdata()) == [3]
    bounds = line(above, "cohort: at least")
    assert list(bounds.get_xdata()) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert list(bounds.get_ydata()) == [0.0] * 5 + [0.2] * 3
    assert set(line(above, "threshold").get_ydata()) == {0.1}
    spent = line(below, "spent in the window, at most")
    assert list(spent.get_ydata())[1:-1] == [n % 4 / 4 for n in (1, 2, 4, 5, 6, 7, 8, 9)]
    assert any(t.get_text() == "0.75 left of 1" for t in below.texts)


@pytest.mark.parametrize("name", ["$$", "a_$x_$", "$\\frac{$"])
def test_dollars_in_a_name_are_dollars(name, tmp_path):
    report = table_report({name: 0.3, "age": 0.0})
    file = tmp_path / "plot.svg"
    CheckSeries([Point(1, report), Point(2, report)]).plot(file, title=name)
    assert file.stat().st_size


def test_a_gap_where_there_is_no_estimate(drawn):
    above, _ = drawn([Point(1, REPORT), Point(2, None), Point(3, REPORT)])
    estimates = line(above, "cohort: estimate")
    assert list(map(str, estimates.get_ydata())) == ["0.25", "nan", "0.25"]


def test_truth_and_an_injected_drift(drawn):
    checks = [Point(n, REPORT, population_truth=0.2, cohort_truth=0.3) for n in (1, 2)]
    above, below = drawn(checks, drift_from=2)
    assert list(line(above, "population: truth").get_ydata()) == [0.2, 0.2]
    assert [t.get_text().strip() for t in above.texts] == ["drift injected"]
    assert below is above  # equal bars of ε tell nothing
    assert below.get_xlabel() == "check; ε = 1 each"


def test_each_check_is_held_against_the_budget_then_in_force(drawn):
    """A budget that was raised since says nothing of what was spent before."""
    amounts = [(0.5, 1.0), (3.5e-6, 1.0), (98.0, 100.0), (97.0, 100.0)]
    checks = [
        Point(n, decided(Outcome.NO_DRIFT, 0.0, left=left, budget=budget))
        for n, (left, budget) in enumerate(amounts, 1)
    ]
    _, below = drawn(checks)
    spent = list(line(below, "spent in the window, at most").get_ydata())[1:-1]
    assert spent == pytest.approx([0.5, 1.0, 2.0, 3.0], abs=1e-5)
    assert list(line(below, "budget in force").get_ydata())[1:-1] == [1.0, 1.0, 100.0, 100.0]
    assert [t.get_text() for t in below.texts] == ["97 left of 100"]


def test_bars_show_an_epsilon_that_differs(drawn):
    half = replace(REPORT, cost=replace(REPORT.cost, epsilon=0.5))
    above, below = drawn([Point(1, REPORT), Point(2, half)])
    assert below is not above
    assert [bar.get_height() for bar in below.patches] == [1.0, 0.5]


def test_a_check_that_runs_is_not_drawn_as_failed(drawn):
    going = Point(2, None, started="2026-11-22T02:00:00+00:00", ended=False)
    above, below = drawn([Point(1, REPORT), going])
    assert list(line(above, "not ended").get_xdata()) == [2]
    assert "failed: no number" not in texts(above)
    assert below.xaxis.get_major_formatter()(2, 0) == "22 Nov"


def test_days_have_dates_and_a_simulation_has_numbers(drawn):
    _, below = drawn(nights(9, drift_from=7))
    label = below.xaxis.get_major_formatter()
    by_start = "check, by its start in UTC; ε = 1 each"
    assert (label(1, 0), label(3, 0), label(10, 0)) == ("02 Nov", "04 Nov", "")
    assert below.get_xlabel() == by_start
    _, below = drawn([Point(1, REPORT), Point(2, REPORT)])
    assert below.get_xlabel() == "check; ε = 1 each"


@pytest.mark.parametrize(
    ("starts", "labels"),
    [
        (["2026-11-21T02:00", "2026-11-21T08:30"], ["02:00", "08:30"]),
        (["2026-11-21T22:00", "2026-11-22T04:00"], ["21 Nov, 22:00", "22 Nov, 04:00"]),
        (["2026-11-21T02:00", "2027-11-21T02:00"], ["21 Nov 2026", "21 Nov 2027"]),
        (["2026-11-21T02:00"], ["21 Nov 2026, 02:00"]),
        (["2026-11-21T23:00-05:00", "2026-11-23T02:00"], ["22 Nov", "23 Nov"]),
    ],
)
def test_labels_tell_checks_apart(drawn, starts, labels):
    starts = [start if start.endswith("05:00") else f"{start}+00:00" for start in starts]
    _, below = drawn([Point(n, None, started=start) for n, start in enumerate(starts, 1)])
    label = below.xaxis.get_major_formatter()
    assert [label(n, 0) for n in range(1, len(starts) + 1)] == labels


def of_population(checks):
    told = {"population_estimate": 0.2, "population_deviation": 0.01}
    return [replace(c, report=c.report and altered(c.report, **told)) for c in checks]


def test_a_year_is_a_band(drawn):
    few, _ = drawn(of_population(nights(panels.CROWD, drift_from=50)))
    many, _ = drawn(of_population(nights(panels.CROWD + 1, drift_from=50)))
    bands = [[c for c in axes.collections if isinstance(c, PolyCollection)] for axes in (few, many)]
    assert list(map(len, bands)) == [0, 1]


def test_the_population_comes_first_and_limits_leave_the_plot_rather_than_squeeze_it(drawn):
    above, _ = drawn(of_population([Point(1, decided(Outcome.DRIFT, 0.17))]))
    assert above.get_legend_handles_labels()[1][0] == "population: estimate ± 2 s.d."
    assert above.get_ylim()[1] > 0.37
    far = decided(Outcome.DRIFT, 0.17)
    far = altered(far, verdict=replace(far.verdict, upper_limit=3.0))
    above, _ = drawn(of_population([Point(1, far)]))
    assert above.get_ylim()[1] < 1
    ((bottom, top),) = [path.vertices[:, 1] for path in line(above, "to at most").get_paths()]
    assert (bottom, top) == (0.17, 3.0)


@pytest.mark.parametrize("dark", [False, True])
def test_the_ground_is_the_pages_card(tmp_path: Path, dark):
    CheckSeries([REPORT]).plot(tmp_path / "h.svg", dark=dark)
    style = (Path(panels.__file__).parent / "page" / "style.css").read_text()
    card = style.split("--card: ")[2 if dark else 1].partition(";")[0]
    assert f"fill: {card}" in (tmp_path / "h.svg").read_text()
