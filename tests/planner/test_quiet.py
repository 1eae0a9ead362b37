"""From which divergence on a check sees drifts of the usual shapes, against fresh checks."""

from dataclasses import replace

import numpy as np
import pytest

from flwr_kld import Labels, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.allowance import allowance
from flwr_kld.infer.drift import Drift
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.power import USUAL, Estimating, draw_cohorts, published
from flwr_kld.kernel.law import SeededBits
from flwr_kld.planner import Setting, forecast
from flwr_kld.trust.trusted import Trusted

RUNS = 60
REFERENCE = Reference.from_probabilities(
    Labels(list(range(20))), (law := np.arange(1.0, 21) ** -0.8) / law.sum()
)
PLAN = Partition(1000).draw(REFERENCE, np.random.default_rng(0))
EXACT = allowance(REFERENCE, level=0.95)
CHECK = Estimating(PLAN, Trusted(0.5).event(60), 3000.0, 1.0, 0.1)


def estimates(check, divergence, shape):
    """Estimates of the population, of cohorts that no forecast has drawn."""
    law, event, effect = (
        Drift(REFERENCE, shape).at(divergence),
        check.event,
        check.design_effect,
    )
    p, bits = np.bincount(PLAN.cell_of, law, PLAN.cells), SeededBits(5)
    cohorts = draw_cohorts(p, int(check.records), effect, RUNS, np.random.default_rng(5))
    found = (published(h, PLAN, event, bits) for h in cohorts)
    return np.array(
        [posterior_ratios(one, effects=DesignEffects(effect)).population.value for one in found]
    )


@pytest.mark.parametrize("effect", [1.0, pytest.param(4.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", USUAL)
def test_drifts_are_seen_in_four_checks_of_five(shape, effect):
    """Of 60 estimates, 38 or fewer are above with probability 1e-3 if the power is 0.8."""
    check = replace(CHECK, design_effect=effect)
    seen = check.seen_from(0.3, EXACT)
    assert 0.1 < seen <= 0.3
    assert (estimates(check, seen, shape) > check.threshold).sum() > 38


def test_what_noise_hides_is_not_seen():
    noisy = replace(CHECK, event=Trusted(0.02).event(60))
    assert noisy.seen_from(0.2, EXACT) is None
    assert replace(CHECK, threshold=0.2).seen_from(0.2, EXACT) is None


@pytest.mark.parametrize("law", [[1.0], [0.5, 0.5]])
def test_a_column_that_cannot_drift_so_far_hides_no_drift(law):
    reference = Reference.from_probabilities(Labels(list(range(len(law)))), law)
    plan = Partition(1000).draw(reference, np.random.default_rng(0))
    check = replace(CHECK, plan=plan, threshold=4.0)
    assert check.seen_from(9.0, EXACT) == pytest.approx(4.0)


def test_where_nothing_moved_the_estimate_is_far_below():
    assert CHECK.above(REFERENCE.probabilities) < -3
    assert CHECK.above(Drift(REFERENCE, "tilted").at(0.4)) > 3


@pytest.mark.usefixtures("two_cohorts")
def test_a_plan_knows_that_noise_hides_how_alike_records_are():
    """A check tells its design effect with noise, and takes the upper end."""
    setting = Setting(clients=30, records=30, trust=Trusted(0.3), population=600, threshold=0.1)
    themselves = replace(setting, population=None)
    assert forecast(REFERENCE, themselves).seen_from is not None
    assert forecast(REFERENCE, setting).seen_from is None
