"""The witness with a value for every cell: what it scores holds for every law."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flwr_kld.inference.deciding import Deciding, default_most_records
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.promise import WholeClients

CELLS = 16
laws = st.lists(st.integers(0, 50), min_size=CELLS, max_size=CELLS).filter(any)


def deciding(records, threshold=0.0, theta=0.01, **options):
    settings = {"most_records": 50, "guarantee": Guarantee(1.0), "noise": 60.0}
    return Deciding(
        clients=100, records=records, threshold=threshold, theta=theta, **(settings | options)
    )


@given(reference=laws, law=laws, seen=laws, theta=st.sampled_from([0.0, 0.01, 0.3]))
def test_a_tolerated_law_scores_at_most_0(plan_for, publish, reference, law, seen, theta):
    """Whatever the first half saw, at a threshold that is the law's own divergence."""
    pi, p = ((np.array(x) + 0.01) / (np.sum(x) + 0.01 * CELLS) for x in (reference, law))
    plan = plan_for(pi)
    own = np.bincount(plan.cell_of, p, plan.cells)
    exact = float(plan.mass @ np.log(plan.mass / ((1 - theta) * own + theta * plan.mass)))
    witness = Witness.from_counts(
        publish(plan, seen), deciding(float(sum(seen)), max(exact, 0.0), theta)
    )
    assert own @ np.array(witness.scores.divergence) <= 1e-6
    assert witness.divergence(float(own @ witness.f)) <= exact + 1e-12


def test_a_drift_scores_above_0_and_is_bounded_closely(plan_for, publish, spread, zipf, in_cells):
    pi = zipf(100)
    plan, law = plan_for(pi), spread(pi, 0.7)
    own = in_cells(plan, law)
    witness = Witness.from_counts(publish(plan, np.rint(1e6 * own)), deciding(1e6, threshold=0.05))
    exact = float(pi @ np.log(pi / (0.99 * law + 0.01 * pi)))
    assert own @ np.array(witness.scores.divergence) > 0
    assert 0.9 * exact < witness.divergence(float(own @ witness.f)) <= exact


def test_rounding_to_steps_wastes_next_to_nothing(plan_for, publish, spread, zipf, in_cells):
    """Else sums over many records would drown: here it is within .01 of their deviation."""
    pi = zipf(100)
    plan = plan_for(pi)
    counts = np.rint(1e5 * in_cells(plan, spread(pi, 0.05)))
    witness = Witness.from_counts(publish(plan, counts), deciding(1e5))
    lost = 1e5 * (witness.least(0.0) - witness.f).mean()
    lost -= 1e5 * witness.step * np.mean(witness.scores.divergence)
    assert 0 <= lost < 0.01 * witness.deviation


def test_a_client_counts_for_no_more_above_than_it_can_below_unless_that_is_usual(
    plan_for, publish, spread, zipf
):
    pi = zipf(50)
    plan = plan_for(pi)
    counts = np.rint(1e4 * np.bincount(plan.cell_of, spread(pi, 1.0), plan.cells))
    witness = Witness.from_counts(publish(plan, counts), deciding(1e4))
    scores = witness.scores
    usual = witness.deviation / witness.step / math.sqrt(100)
    assert scores.ceiling >= min(scores.worst, 50 * max(scores.divergence))
    assert scores.ceiling >= min(11.9 * usual, 50 * max(scores.divergence))
    assert scores.ceiling <= max(scores.worst, 12 * usual + 1)


def test_large_sums_are_not_capped_where_noise_leaves_their_squares_to_be_seen(
    plan_for, publish, zipf
):
    """A cap hid half of the variance where many clients drift far: see the proof note."""
    pi = zipf(50)
    plan = plan_for(pi)
    law = 0.9 * pi + 0.1 * (np.arange(50) == 49)
    counts = np.rint(5e3 * np.bincount(plan.cell_of, law, plan.cells))
    noisy = publish(plan, counts)
    client = Guarantee(1.0, protects=WholeClients(1))  # all noise grows
    for noise, of, whole in (
        (1.0, Guarantee(1.0), True),
        (1e5, Guarantee(1.0), False),
        (1e-6, client, False),
    ):
        scores = Witness.from_counts(noisy, deciding(5e3, noise=noise, guarantee=of)).scores
        largest = scores.most_records * max(scores.divergence)
        assert (scores.ceiling == largest) is whole, noise


@pytest.mark.parametrize("tolerated", [0.0, 0.01, 0.3, 0.9, 0.99999])
def test_a_tolerated_share_outside_scores_at_most_0(plan_for, publish, tolerated):
    pi = np.append(np.full(19, 1 / 19), 0.0)
    plan = plan_for(pi)
    witness = Witness.from_counts(
        publish(plan, np.ones(plan.cells)), deciding(20.0, outside=tolerated)
    )
    scores = np.array(witness.scores.outside)
    outside, inside = scores[plan.outside], scores[~plan.outside]
    assert (outside >= 0).all()
    assert outside.max() > -inside.min() or tolerated >= 0.5
    assert tolerated * outside.max() + (1 - tolerated) * inside.max() <= 1e-9


def test_values_that_do_not_fit_are_refused(plan_for):
    plan = plan_for(np.full(16, 1 / 16))
    share, below = np.full(16, 1 / 16), np.zeros(16, dtype=np.int64)
    for wrong in (below[1:], below + 1000):
        with pytest.raises(ValueError, match="witness"):
            Witness(plan, wrong, 0.01, share, deciding(10.0))


def test_by_default_clients_that_are_alike_count_all_their_records():
    assert default_most_records(5000.0, 100) >= 50
    assert default_most_records(0.1, 100) == 1
    assert math.ceil(1.25 * 33.3) == default_most_records(333.0, 10)
