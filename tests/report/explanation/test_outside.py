"""The estimated share of records outside the reference, and what they are."""

import numpy as np
import pytest

from flwr_kld import Binned, Categories, Labels, Reference
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.outside import percent
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.report.explanation import outside_fraction, unlisted
from flwr_kld.trust.calibration import calibrated_laplace

TABLE = Categories({"job": ["nurse", "cook"], "age": Binned([40])})
PLAN = Partition(16).draw(Reference.from_counts(TABLE, [3, 2, 4, 1]), np.random.default_rng(0))


def released(rows, epsilon=1.0, seed=0, protects="record"):
    jobs, ages = zip(*rows, strict=True)
    symbols = TABLE.encode({"job": list(jobs), "age": list(ages)})
    clear = np.bincount(PLAN.cell_of[symbols], minlength=PLAN.cells)
    event = calibrated_laplace(Guarantee(epsilon, 0.0, protects))
    noisy = clear + sample(event.table, PLAN.cells, SeededBits(seed))
    total = clear if protects == "record" else noisy
    return NoisyCounts(noisy, float(total.sum()), event, PLAN, False)


ROWS = [("nurse", 30)] * 700 + [("pilot", None)] * 200 + [("cook", None)] * 100


def test_kinds_are_named_by_the_first_column_that_does_not_fit():
    found = outside_fraction(released(ROWS))
    assert found.share == pytest.approx(0.3, abs=0.03)
    assert [kind.name for kind in found.kinds[:2]] == ["'other' in job", "'missing' in age"]
    assert found.kinds[0].share == pytest.approx(0.2, abs=0.02)
    assert str(found) == f"{100 * found.share:.0f} % ± 2 %, 'other' in job, 'missing' in age"


def test_noise_is_not_named():
    found = outside_fraction(released([("nurse", 30)] * 5000))
    assert found.share < 0.01
    assert "job" not in str(found)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
def test_the_deviation_is_the_spread(protects):
    """Of 400 cohorts of 1,000: a standard deviation within 20 %, 5.7 of its own deviations."""
    rng, found = np.random.default_rng(0), []
    for seed in range(400):
        rows = [ROWS[i] for i in rng.integers(0, len(ROWS), 1000)]
        found.append(outside_fraction(released(rows, 0.3, seed, protects)))
    told = np.mean([one.deviation for one in found])
    assert np.std([one.share for one in found]) == pytest.approx(told, rel=0.2)


def test_clusters_make_it_wider():
    counts = released(ROWS)
    one, four = (outside_fraction(counts, DesignEffects(effect)) for effect in (1.0, 4.0))
    assert one.deviation < four.deviation < 2 * one.deviation + 1e-9


def test_a_reference_with_mass_everywhere_has_no_outside():
    full = Reference.from_counts(Labels(["a"]), [1, 1, 1])
    plan = Partition(16).draw(full, np.random.default_rng(0))
    event = calibrated_laplace(Guarantee(1.0))
    assert outside_fraction(NoisyCounts(np.array([1, 2, 3]), 6.0, event, plan, False)) is None


@pytest.mark.parametrize(
    ("share", "deviation", "text"),
    [
        (0.272, 0.0113, "27 % ± 1 %"),
        (0.0123, 0.0021, "1.2 % ± 0.2 %"),
        (0.0, 0.00003, "0.000 % ± 0.003 %"),
        (0.5, 0.0, "50 % ± 0 %"),
        (0.5, 0.2, "50 % ± 20 %"),
    ],
)
def test_as_many_digits_as_are_known(share, deviation, text):
    assert percent(share, deviation) == text


def test_a_column_is_blind_if_nearly_all_records_surely_are_unlisted():
    """Of 600 records with noise of thousands, 95 % seem unlisted, by noise alone."""
    jobs = Partition(16).draw(
        Reference.from_counts(Labels(["nurse"]), [1]), np.random.default_rng(0)
    )
    for epsilon, blind in ((1.0, True), (1e-3, False)):
        event = calibrated_laplace(Guarantee(epsilon, 0.0))
        noisy = NoisyCounts(np.array([30, 570, 0]), 600.0, event, jobs, True)
        assert (unlisted(noisy, effects=DesignEffects(), level=0.95) is not None) == blind
