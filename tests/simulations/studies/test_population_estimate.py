"""The study of the population's estimate holds each estimator against its own truth."""

import numpy as np
import pytest

from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.simulations.studies import population_estimate as study
from flwr_kld.simulations.studies.hands import Hands


@pytest.fixture
def world():
    """Ten 'digits', each of which two writers write with two symbols of their own."""
    domain = study.drifts.reference_of(np.ones(20) / 20).domain
    past = np.stack([np.bincount([2 * d, 2 * d, 2 * d + 1], minlength=22) for d in range(10)])
    hands = [
        Hands(np.array([2 * d] * 3 + [2 * d + 1]), np.array([0, 3]), np.array([3, 1]))
        for d in range(10)
    ]
    return study.World(domain, past, hands, hands[0])


def test_a_population_is_all_its_writers_and_a_cohort_some(world):
    law = world.law(4)
    assert (law[8], law[9], law.sum()) == (0.75, 0.25, 1.0)
    cohorts = [world.cohort(4, np.random.default_rng(seed)) for seed in range(20)]
    # One writer of the two, with all records: three of one symbol, or one of the other.
    assert {(c[8], c[9], c.sum()) for c in cohorts} == {(3, 0, 3), (0, 1, 1)}


@pytest.mark.parametrize(("drift", "nats"), [("null", 0.0), ("spread", 0.2), ("vanished", 0.3)])
def test_a_known_drift_has_its_divergence(drift, nats):
    reference, law = study.known(drift)
    found = skewed_divergence(reference.probabilities, law, study.THETA)
    assert found == pytest.approx(nats, abs=1e-6)


def test_known_laws_are_read_within_their_bars():
    # Seeded: the estimator's errors on three cohorts of each law with 20,000 records.
    for drift in ("null", "spread", "vanished"):
        rows = [row for run in range(3) for row in study.of_known((drift, 20_000, run))]
        (own,) = (r for r in study.summary(rows, "drift", "records") if r["target"] == "population")
        assert own["estimator"] == "posterior_ratios"
        assert own["rmse"] < study.BARS[drift, 20_000]


def test_each_estimator_is_held_against_its_own_truth():
    rows = study.of_known(("null", 5_000, 0))
    truth = {row["target"]: row["truth"] for row in rows}
    assert truth["population"] == pytest.approx(0, abs=1e-9)
    assert truth["cohort"] > 0.05  # 5,000 records over 1,000 symbols


def test_summary_and_who_is_nearest():
    def row(estimator, target, off, stated):
        return {"s": 1, "estimator": estimator, "target": target, "truth": 1.0,
                "estimate": 1 + off, "stated": stated}  # fmt: skip

    rows = [
        *(row("a", "cohort", off, 0.1) for off in (-0.3, 0.3)),
        *(row("b", "cohort", off, 0.1) for off in (-0.1, 0.1)),
        *(row("c", "population", off, 0.1) for off in (0.0, 0.02)),
    ]
    found = study.summary(rows, "s")
    assert [r["rmse"] for r in found[:2]] == pytest.approx([0.3, 0.1])
    assert (found[1]["z_sd"], found[2]["z_sd"]) == pytest.approx((1.0, 0.1))
    (default,) = study.behind(found, "a", "s")
    assert (default["nearest"], default["times_its_rmse"]) == ("b", pytest.approx(3.0))
