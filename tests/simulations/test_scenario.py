"""Scenarios: reproducible, drift where they say, and the truth is the truth."""

import numpy as np
import pytest

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.simulations.scenario import Scenario

SMALL = {"writers": 30, "records": 40, "reference_writers": 60}


def test_any_process_makes_the_same_writers():
    one, two = Scenario(**SMALL), Scenario(**SMALL)
    assert one.reference.fingerprint == two.reference.fingerprint
    two.write(29, 3)  # another order of asking
    assert (one.write(7, 2).images == two.write(7, 2).images).all()
    assert (one.write(7, 2).images != Scenario(**SMALL, seed=2).write(7, 2).images).any()


def test_records_are_new_at_each_check_unless_kept():
    scenario = Scenario(**SMALL, drift="none")
    assert (scenario.write(3, 1).images != scenario.write(3, 2).images).any()
    kept = Scenario(**SMALL, drift="none", fresh=False)
    assert kept.write(3, 1) is kept.write(3, 2)


def test_digit_drift_begins_at_its_check():
    scenario = Scenario(**SMALL, drift="digits", drift_from=3)

    def share(check):
        labels = np.concatenate([scenario.write(m, check).labels for m in scenario.members])
        return np.isin(labels, (1, 7)).mean()

    assert share(2) < 0.35  # about 0.2; 1,200 records of clustered writers
    assert share(3) > 0.6  # 0.7 by construction


def test_another_hand_writes_the_same_digits_as_other_patterns():
    scenario = Scenario(**SMALL, drift="writers", drift_from=3)
    before, after = (scenario.truth(scenario.members, check) for check in (2, 3))
    assert after > before + 0.3


def test_truth_is_the_exact_divergence_of_the_cohort():
    scenario = Scenario(**SMALL)
    images = np.concatenate([scenario.write(m, 1).images for m in (2, 5)])
    counts = np.bincount(scenario.domain.encode(images), minlength=scenario.domain.size)
    exact = skewed_divergence(scenario.reference.probabilities, counts, 0.01)
    assert scenario.truth([2, 5], 1) == exact


def test_real_writers_are_split_into_reference_and_clients(npz):
    scenario = Scenario(source=str(npz), writers=0, drift="digits", drift_from=2)
    assert len(scenario.members) == 20
    assert scenario.domain.side == 28
    assert set(scenario.write(scenario.members[0], 2).labels) <= {1, 7}
    assert len(scenario.write(scenario.members[0], 1)) == 30
    assert scenario.truth(scenario.members, 2) > scenario.truth(scenario.members, 1)


def test_a_cohort_larger_than_the_clients_is_refused(npz):
    real = Scenario(source=str(npz), writers=0)
    real.require(20)
    with pytest.raises(ValueError, match="21"):
        real.require(21)
    with pytest.raises(ValueError, match="31"):
        Scenario(**SMALL).require(31)


def test_run_config_has_hyphens_and_other_keys():
    scenario = Scenario.from_run_config({"reference-writers": 60, "writers": 30, "epsilon": 1.0})
    assert scenario.reference_writers == 60
    assert scenario is Scenario.from_run_config({"writers": 30, "reference-writers": 60})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"drift": "sideways"}, "drift"),
        ({"writers": -1}, "writers"),
        ({"records": 0}, "records"),
        ({"writers": 0, "drift": "writers"}, "writers"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        Scenario(**arguments)


def test_the_populations_truth_is_of_everybody_who_keeps_their_records(npz):
    for scenario in (Scenario(**SMALL, fresh=False), Scenario(source=str(npz), writers=0)):
        everybody = scenario.truth(scenario.members, 5)
        assert scenario.population_truth(5) == everybody
        assert scenario.population_truth(6) == everybody
        assert scenario.population_truth(1) < everybody - 0.1


def test_the_truth_of_a_law_is_below_that_of_any_histogram():
    """Writers who drift are told from histograms of 6,000 and 3,000 of their records."""
    scenario = Scenario(**SMALL)
    found = scenario.population_truth(5)
    many = Scenario(writers=400, records=40, reference_writers=60, fresh=False)
    own = many.truth(many.members, 5)  # of 16,000 records
    assert 0.1 < found < own
    assert found == pytest.approx(own, abs=0.1)
