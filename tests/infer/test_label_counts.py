"""Unlisted labels: from how many records on they are shown, and what a count says."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from flwr_kld.infer.label_counts import chance, found_from, interval
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.trust.calibration import selection_release

DELTA = 1e-6


def table(epsilon: float) -> NoiseTable:
    return selection_release(Guarantee(epsilon, DELTA)).table


def law(noise: NoiseTable, records: int) -> dict[int, Fraction]:
    """Counts that are shown of a label of so many records, and their probabilities, exactly."""
    counts = range(noise.reach + 1, records + noise.reach + 1)
    return {count: noise.probability(count - records) for count in counts}


@pytest.mark.parametrize(("epsilon", "most"), [(0.5, 60), (1.0, 33), (2.0, 17)])
def test_so_many_records_are_enough(epsilon, most):
    """At δ = 1e-6, in 95 of 100 questions: by the table's own weights."""
    noise = table(epsilon)
    found = found_from(noise)
    assert found <= most
    assert sum(law(noise, found).values()) >= Fraction(95, 100)
    assert sum(law(noise, found - 1).values()) < Fraction(95, 100)


def test_the_page_says_so_many_records_as_reports_do():
    page = (Path(__file__).parents[2] / "docs/guides/describe.md").read_text()
    rows = re.findall(r"^\| (?:ε|records) \|(.*)\|$", page, re.MULTILINE)
    said = dict(zip(*(map(float, row.split("|")) for row in rows), strict=True))
    assert said == {epsilon: found_from(table(epsilon)) for epsilon in (0.5, 1, 2)}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_a_label_of_one_record_is_shown_as_rarely_as_delta_says_and_one_of_none_never(epsilon):
    noise = table(epsilon)
    assert chance(noise, 0) == 0
    assert 0 < chance(noise, 1) <= DELTA
    assert chance(noise, 2 * noise.reach + 1) == pytest.approx(1)
    for records in range(2 * noise.reach + 3):
        assert chance(noise, records) == pytest.approx(float(sum(law(noise, records).values())))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 2.0, 9.0])
def test_intervals_hold_for_labels_that_are_shown_however_many_records_they_have(epsilon):
    """Where few records are shown at all, too: that a count was lucky is allowed for."""
    noise = table(epsilon)
    reach, step = noise.reach, max(noise.reach // 20, 1)
    intervals = {count: interval(noise, count) for count in range(reach + 1, 4 * reach + 3)}
    for records in range(1, 3 * reach + 3, step):
        shown = law(noise, records)
        inside = sum(p for count, p in shown.items() if _in(records, intervals[count]))
        assert inside / sum(shown.values()) >= Fraction(95, 100) - Fraction(1, 10**12)


def _in(records: int, limits: tuple[int, int]) -> bool:
    return limits[0] <= records <= limits[1]


def test_an_interval_says_when_a_count_may_be_luck():
    """Just beyond the threshold one record may be all there is; far beyond, the noise is known."""
    noise = table(1.0)
    assert interval(noise, noise.reach + 1)[0] == 1
    low, high = interval(noise, 1000)
    assert (1000 - low, high - 1000) == (6, 6)
