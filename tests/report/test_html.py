"""What the page says, whatever shows it."""

import re
from dataclasses import replace

import pytest
from report.samples import REPORT, altered, decided, nights

from flwr_kld.report import Outcome
from flwr_kld.report.envelope import Point
from flwr_kld.views import CheckSeries

pytestmark = pytest.mark.usefixtures("no_plots")


def words(checks) -> str:
    """The page's text on one line, its tags included."""
    return " ".join(CheckSeries(checks).to_html(title="t").split())


@pytest.mark.parametrize(
    ("outcome", "head"),
    [
        (Outcome.DRIFT, "▲ ALARM: labels."),
        (Outcome.NO_DRIFT, "✓ OK: no drift in labels."),
        (Outcome.INCONCLUSIVE, "? Inconclusive: too few data to judge labels."),
    ],
)
def test_the_outcome_comes_first_and_the_details_last(outcome, head):
    text = words([Point(n, decided(outcome, 0.07, budget=2.0)) for n in (1, 2)])
    order = [
        text.index(part)
        for part in (
            f'<p class="outcome">{head}</p>',
            "against the reference eeeeeeee",
            "<strong>Next:</strong>",
            "<strong>Privacy:</strong>",
            "has 0.5 left",
            "<h2>Columns</h2>",
            "<h2>History</h2>",
            "<h2>Details</h2>",
            "the lower bound is 0.070 nats",
            "<h2>What is protected, from whom</h2>",
            "<h2>Checks</h2>",
        )
    ]
    assert order == sorted(order)
    inconclusive = outcome is Outcome.INCONCLUSIVE
    assert ("ask twice as many clients." in text) == inconclusive
    assert ("at least 0.070 and at most 0.270" in text) == (not inconclusive)


def of_population(counted):
    """A check that estimates the population's divergence, too."""
    return altered(
        decided(Outcome.DRIFT, 0.07, budget=2.0), population_estimate=0.2,
        population_deviation=0.05, drawn_from="these 18 clients", counted=counted,
    )  # fmt: skip


@pytest.mark.parametrize("counted", ["these 18 clients", "18 clients that were drawn"])
def test_text_page_and_table_have_one_name_for_one_number(counted):
    report = of_population(counted)
    text, page = " ".join(str(report).split()), words([report])
    heads = set(re.findall(r"<dt>(D(?: of the \w+)?)<", page))
    assert heads == set(re.findall(r"\b(D(?: of the \w+)?) \d", text))
    drawn = counted != "these 18 clients"
    assert heads == ({"D of the population", "D of the cohort"} if drawn else {"D"})
    assert f"D is of {counted}" in text or f"the cohort {counted}" in text
    table = {str(column.header) for column in CheckSeries([report]).table().columns}
    of_page = set(re.findall(r"<th scope=\"col\"[^>]*>([^<]+)", page))
    assert table - of_page == {"key", "limits"}  # the page has "at least" and "at most"


def test_a_check_without_a_threshold_decided_nothing():
    text = words([Point(1, REPORT)])
    assert '<p class="outcome">– Not judged: no threshold is set.</p>' in text
    assert "at least" not in text
    assert "<svg" not in text


def test_a_decision_without_a_bound():
    report = decided(Outcome.INCONCLUSIVE, 0.0)
    report = altered(report, verdict=replace(report.verdict, lower_bound=None))
    text = words([Point(1, report)])
    assert "at least –" in text


def test_nothing_is_minus_0():
    report = decided(Outcome.NO_DRIFT, 0.0, estimate=-0.0004)
    assert "<dd>0.000 ± 0.050 nats" in words([Point(1, report)])
    for text in (words([Point(1, report)]), str(report)):
        assert "-0.000" not in text
    assert "0.000 ± 0.050" in str(altered(report, estimate=-0.0006))


def test_a_failed_last_check_is_said_before_the_last_good_one():
    checks = [Point(1, decided(Outcome.NO_DRIFT, 0.0)), Point(2, None, failure="<b>no</b> budget")]
    text = words(checks)
    assert text.index("The last check failed") < text.index("✓ OK: no drift")
    assert (
        "released no number: &lt;b&gt;no&lt;/b&gt; budget. The last one with a number is check 1"
        in text
    )
    assert "failed: no number was released (&lt;b&gt;no&lt;/b&gt; budget)" in text


def test_a_check_that_runs_has_not_failed():
    going = Point(2, None, failure="it runs <b>now</b>", started=REPORT.started, ended=False)
    text = words([Point(1, decided(Outcome.NO_DRIFT, 0.0)), going])
    assert text.index("The last check has not ended") < text.index("✓ OK: no drift")
    assert "Check 2 runs, or was cut off; what it reserved is spent. The last one with a" in text
    assert re.search(
        r"<td>2026-11-21 02:00<td class=\"words\" colspan=\"\d+\">it runs &lt;b&gt;now", text
    )
    assert "failed" not in text
    alone = words([going])
    assert "No check has ended" in alone
    assert "<picture>" not in alone  # there is nothing to draw


def test_no_check_at_all():
    assert "No check yet" in words([])


def test_checks_stand_newest_first_and_drifts_are_marked():
    text = words(nights(9, drift_from=7))
    table = text[text.index("<h2>Checks</h2>") :]
    numbers = [int(n) for n in re.findall(r'<tr><th scope="row">(\d+)', table)]
    assert numbers == list(range(9, 0, -1))
    assert table.count('<td class="drift">drift') == 3
    assert table.count('<td class="">no drift') == 4
