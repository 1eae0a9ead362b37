"""The history plot says what the checks say."""

from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.collections import PolyCollection
from report.samples import REPORT, decided, nights

from flwr_kld.report import Check, Outcome, panels, plot_history


@pytest.fixture
def drawn(axes_of):
    """Draw a history; returns the figure's two axes."""
    return lambda checks, **options: axes_of(plot_history, checks, **options)


def texts(axes) -> list[str]:
    return sorted(axes.get_legend_handles_labels()[1])


def line(axes, label: str):
    handles, labels = axes.get_legend_handles_labels()
    return handles[labels.index(label)]


def test_every_kind_of_mark_is_where_its_check_is(drawn):
    above, below = drawn(nights(9, drift_from=7), budget=1.0)
    assert texts(above) == [
        "alarm: drift", "certified lower bound", "failed: no number",
        "private estimate ± 2 s.d.", "threshold",
    ]  # fmt: skip
    assert list(line(above, "alarm: drift").get_xdata()) == [7, 8, 9]
    assert list(line(above, "failed: no number").get_xdata()) == [3]
    bounds = line(above, "certified lower bound")
    assert list(bounds.get_xdata()) == [1, 2, 4, 5, 6, 7, 8, 9]
    assert list(bounds.get_ydata()) == [0.0] * 5 + [0.2] * 3
    assert set(line(above, "threshold").get_ydata()) == {0.1}
    spent = line(below, "spent in the window, at most")
    assert list(spent.get_ydata()) == [n % 4 / 4 for n in (1, 2, 4, 5, 6, 7, 8, 9)]
    assert any(t.get_text() == "0.75 left of 1" for t in below.texts)


def test_bounds_below_0_are_drawn_at_0(drawn):
    above, _ = drawn([Check(1, decided(Outcome.INCONCLUSIVE, -0.5))])
    assert list(line(above, "certified lower bound").get_ydata()) == [0.0]


def test_a_gap_where_there_is_no_estimate(drawn):
    above, _ = drawn([Check(1, REPORT), Check(2, None), Check(3, REPORT)])
    estimates = line(above, "private estimate ± 2 s.d.").lines[0]
    assert list(map(str, estimates.get_ydata())) == ["0.25", "nan", "0.25"]


def test_truth_and_an_injected_drift(drawn):
    above, below = drawn([Check(n, REPORT, truth=0.2) for n in (1, 2)], drift_from=2)
    assert "truth (exact, this cohort)" in texts(above)
    assert [t.get_text().strip() for t in above.texts] == ["drift injected"]
    assert texts(below) == ["of each check"]


def test_without_a_budget_what_is_left_is_drawn(drawn):
    _, below = drawn(nights(4, drift_from=9))
    assert list(line(below, "left in the window").get_ydata()) == [0.75, 0.5, 1.0]


def test_days_have_dates_and_a_simulation_has_numbers(drawn):
    _, below = drawn(nights(9, drift_from=7))
    label = below.xaxis.get_major_formatter()
    assert (label(1, 0), label(3, 0), below.get_xlabel()) == ("02 Nov", "", "")
    _, below = drawn([Check(1, REPORT), Check(2, REPORT)])
    assert below.get_xlabel() == "check"


def test_a_year_is_a_band(drawn):
    few, _ = drawn(nights(panels.CROWD, drift_from=50))
    many, _ = drawn(nights(panels.CROWD + 1, drift_from=50))
    bands = [[c for c in axes.collections if isinstance(c, PolyCollection)] for axes in (few, many)]
    assert list(map(len, bands)) == [0, 1]


@pytest.mark.parametrize("dark", [False, True])
def test_the_ground_is_the_pages_card(tmp_path: Path, dark):
    plot_history([Check(1, REPORT)], tmp_path / "h.svg", dark=dark)
    style = (Path(panels.__file__).parent / "page" / "style.css").read_text()
    card = style.split("--card: ")[2 if dark else 1].partition(";")[0]
    assert f"fill: {card}" in (tmp_path / "h.svg").read_text()


def test_reports_of_nothing_finite(drawn):
    above, _ = drawn([Check(1, replace(REPORT, estimate=None))])
    assert texts(above) == []
