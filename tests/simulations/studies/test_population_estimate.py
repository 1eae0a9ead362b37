"""The study of the population's estimate holds each estimator against its own truth."""

import numpy as np
import pytest

from flwr_kld.simulations.studies import drifts
from flwr_kld.simulations.studies import population_estimate as study
from flwr_kld.simulations.studies.hands import Hands


@pytest.fixture
def world():
    """Ten 'digits', each of which two writers write with two symbols of their own."""
    domain = drifts.reference_of(np.ones(20) / 20).domain
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


def test_each_estimator_is_held_against_its_own_truth(world):
    law = world.law(4)
    reference = study.Reference.from_probabilities(world.domain, law)
    rows = study.readings(reference, law, world.everyone(4) * 100, 3.0, 0)
    truth = {row["estimator"]: (row["target"], row["truth"]) for row in rows}
    assert set(truth) == {"posterior_counts", "posterior_ratios", "paper"}
    assert truth["posterior_ratios"] == ("population", pytest.approx(0, abs=1e-9))


def test_a_summary_of_each_estimator():
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
