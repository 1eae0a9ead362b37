"""Bounds from sums over clients: what they say is true, and near what can be said."""

import math

import numpy as np
import pytest
from scipy.special import stdtr

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.lower_bound import lower_confidence_bound
from flwr_kld.inference.outside import outside_limits
from flwr_kld.inference.score_sum import Student
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import MOVES, NUMBERS, answer_of
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.query.noisy import ClientSums

GUARANTEE = Guarantee(1.0)
EVENT = calibrated_laplace(GUARANTEE, shifts=MOVES)
NOISE = sample(EVENT.table, 60_000, SeededBits(1)).reshape(-1, len(NUMBERS))


def measured(plan, publish, law, rng, *, clients=200, size=50, by="client", **options):
    """A first half, its witness, and the sums of a second half; laws over cells."""
    records = clients * size
    most = math.ceil(1.25 * size)
    first = publish(plan, rng.multinomial(records, law), 1.0, int(rng.integers(1 << 30)))
    deviation = math.sqrt(EVENT.table.variance)
    deciding = Deciding(
        clients, records, most, by, GUARANTEE, deviation, **({"threshold": 0.05} | options)
    )
    witness = Witness.from_counts(first, deciding)
    counts = rng.multinomial(size, law, size=clients)
    bits = SeededBits(int(rng.integers(1 << 30)))
    steps = np.sum(
        [answer_of((witness.scores,), c, GUARANTEE, bits.words(5)) for c in counts], axis=0
    )
    steps += NOISE[rng.integers(len(NOISE))]
    return witness, ClientSums(steps, clients, EVENT, witness.query_plan(), False)


@pytest.mark.parametrize("by", ["client", "record"])
def test_a_bound_is_below_what_is_true_and_near_it(plan_for, publish, spread, zipf, in_cells, by):
    pi, rng = zipf(60), np.random.default_rng(3)
    plan, law = plan_for(pi), spread(pi, 0.8)
    exact = float(pi @ np.log(pi / (0.99 * law + 0.01 * pi)))
    lowers = []
    for _ in range(8):
        witness, sums = measured(plan, publish, in_cells(plan, law), rng, by=by)
        bound = lower_confidence_bound(witness, sums, level=0.999)
        assert bound.lower < bound.point
        assert bound.p_value < 1e-4
        lowers.append(bound.lower)
    assert max(lowers) < exact
    assert np.median(lowers) > 0.6 * exact


def test_at_the_threshold_few_checks_reject(plan_for, publish, spread, zipf, in_cells):
    """30 checks at exactly D_θ: more than 9 below 5 % have a probability below 1e-5."""
    pi, rng = zipf(30), np.random.default_rng(5)
    plan, law = plan_for(pi), spread(pi, 0.5)
    exact = float(pi @ np.log(pi / (0.99 * law + 0.01 * pi)))
    found = [
        lower_confidence_bound(*measured(plan, publish, in_cells(plan, law), rng, threshold=exact))
        for _ in range(30)
    ]
    assert sum(bound.p_value < 0.05 for bound in found) <= 9
    assert all((b.lower > exact) == (b.p_value < 0.05) for b in found if b.p_value > 1e-4)


def test_clients_that_are_alike_widen_the_bound(plan_for, publish, zipf):
    pi, rng = zipf(20), np.random.default_rng(7)
    plan = plan_for(pi)
    witness, sums = measured(plan, publish, np.roll(plan.mass, 1), rng)
    steps = sums.steps.copy()
    steps[NUMBERS.index("squares")] *= 20
    alike = ClientSums(steps, sums.clients, EVENT, sums.plan, False)
    one, other = (lower_confidence_bound(witness, s) for s in (sums, alike))
    assert other.lower < one.lower
    assert other.spread.ratio > 3 * one.spread.ratio


@pytest.mark.parametrize("tolerated", [0.0, 0.02])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3])
def test_the_share_outside_lies_within_its_limits(plan_for, publish, share, tolerated):
    pi, rng = np.append(np.full(19, 1 / 19), 0.0), np.random.default_rng(11)
    plan = plan_for(pi)
    law = np.where(plan.outside, share, (1 - share) * plan.mass)
    for _ in range(2):
        witness, sums = measured(plan, publish, law, rng, outside=tolerated)
        limits = outside_limits(witness, sums, level=0.9999)
        assert limits.lower <= share <= limits.upper
        assert limits.upper - limits.lower < 0.15


def test_sums_of_another_witness_are_refused(plan_for, publish, zipf):
    plan, rng = plan_for(zipf(20)), np.random.default_rng(1)
    witness, _ = measured(plan, publish, plan.mass, rng)
    _, others = measured(plan, publish, plan.mass, rng)
    with pytest.raises(ValueError, match="not those of this witness"):
        lower_confidence_bound(witness, others)


@pytest.mark.parametrize("degrees", [1, 2.5, 9, 99, 1e4, 1e7])
def test_the_table_of_students_law(degrees):
    x = np.concatenate([np.linspace(-14, 14, 9_999), [-1e9, 1e9, 0.0]])
    exact, found = stdtr(degrees, x), Student(degrees)(x)
    assert found == pytest.approx(np.maximum(exact, 1e-30), rel=1e-6, abs=0)
