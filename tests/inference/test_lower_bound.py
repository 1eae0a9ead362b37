"""Bounds from sums over clients: what they say is true, and near what can be said."""

import math

import numpy as np
import pytest
from scipy.special import stdtr

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.deciding import Deciding
from flwr_kld.inference.lower_bound import divergence_sum, lower_confidence_bound
from flwr_kld.inference.outside import outside_limits
from flwr_kld.inference.score_sum import Student
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import MOVES, NUMBERS, answer_of
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.query.noisy import ClientSums
from flwr_kld.search import root

GUARANTEE = Guarantee(1.0)
EVENT = calibrated_laplace(GUARANTEE, shifts=MOVES)
NOISE = sample(EVENT.table, 60_000, SeededBits(1)).reshape(-1, len(NUMBERS))


def measured(plan, publish, law, rng, *, clients=200, size=50, **options):
    """A first half, its witness, and the sums of a second half; laws over cells."""
    records = clients * size
    most = math.ceil(1.25 * size)
    first = publish(plan, rng.multinomial(records, law), 1.0, int(rng.integers(1 << 30)))
    deviation = math.sqrt(EVENT.table.variance)
    deciding = Deciding(
        clients, records, most, GUARANTEE, deviation, **({"threshold": 0.05} | options)
    )
    witness = Witness.from_counts(first, deciding)
    return witness, summed(witness, rng.multinomial(size, law, size=clients), rng)


def summed(witness, counts, rng):
    """Sums over clients, of counts of shape [clients, cells]."""
    bits = SeededBits(int(rng.integers(1 << 30)))
    coins = bits.words(5 * len(counts)).reshape(-1, 5)
    steps = answer_of((witness.scores,), counts, GUARANTEE, coins).sum(axis=0, dtype=np.int64)
    steps += NOISE[rng.integers(len(NOISE))]
    return ClientSums(steps, len(counts), EVENT, witness.query_plan(), False)


def unlike(pi, law, part, theta=0.01):
    """D_θ of a mixture with so large a part of the law that makes it the least."""
    theirs, ours = (1 - theta) * part, (1 - theta) * (1 - part) * law + theta * pi

    def filled(level):
        return np.maximum(pi / level - ours, 0)

    level = root(lambda x: filled(x).sum() - theirs, 1e-3, 1e3, within=1e-9)
    return float(pi @ np.log(pi / (ours + filled(level))))


def test_a_check_finds_no_more_than_so_few_clients_can_carry(
    plan_for, publish, spread, zipf, in_cells
):
    """Records tell all, and 20 clients too little: they may miss 5 % who would undo it."""
    pi, rng, level, clients = zipf(60), np.random.default_rng(4), 1e-5, 20
    plan, law = plan_for(pi), spread(pi, 0.8)
    part = root(lambda x: unlike(pi, law, x) - 0.1, 1e-6, 0.9, within=1e-9)
    carried = level * (1 - part) ** -clients
    assert carried < 1e-3
    for _ in range(8):
        found = measured(
            plan, publish, in_cells(plan, law), rng, clients=clients, size=2000, threshold=0.1
        )
        score = divergence_sum(*found, level)
        assert score.value > 10 * score.deviation
        assert score.p_value() > level


def test_a_bound_is_below_what_is_true_and_near_it(plan_for, publish, spread, zipf, in_cells):
    pi, rng = zipf(60), np.random.default_rng(3)
    plan, law = plan_for(pi), spread(pi, 0.8)
    exact = float(pi @ np.log(pi / (0.99 * law + 0.01 * pi)))
    lowers = []
    for _ in range(8):
        witness, sums = measured(plan, publish, in_cells(plan, law), rng)
        bound = lower_confidence_bound(witness, sums, level=0.999)
        assert bound.lower < bound.point
        assert divergence_sum(witness, sums, 1e-3).p_value() < 1e-4
        lowers.append(bound.lower)
    assert max(lowers) < exact
    assert np.median(lowers) > 0.4 * exact


def test_at_the_threshold_few_checks_reject(plan_for, publish, spread, zipf, in_cells):
    """30 checks at exactly D_θ: more than 9 below 5 % have a probability below 1e-5."""
    pi, rng = zipf(30), np.random.default_rng(5)
    plan, law = plan_for(pi), spread(pi, 0.5)
    exact = float(pi @ np.log(pi / (0.99 * law + 0.01 * pi)))
    checks = [measured(plan, publish, in_cells(plan, law), rng, threshold=exact) for _ in range(30)]
    p_values = [divergence_sum(*check, 0.05).p_value() for check in checks]
    bounds = [lower_confidence_bound(*check).lower for check in checks]
    assert sum(p < 0.05 for p in p_values) <= 9
    assert all((b > exact) == (p < 0.05) for b, p in zip(bounds, p_values, strict=True))


@pytest.mark.parametrize("clients", [20, 50, 100])
def test_a_kind_of_client_that_was_missed_is_allowed_for(plan_for, publish, zipf, clients):
    """All clients of the reference hold one symbol, or all others: 30 % of both halves miss those.

    No test may reject more often than that, however clearly the symbol seems to have vanished.
    """
    share = 1 - 0.3 ** (1 / clients)
    law = zipf(10)
    others = np.where(np.arange(10) == 5, 0.0, law) / (1 - law[5])
    plan = plan_for((1 - share) * others + share * np.eye(10)[5])
    seen = np.bincount(plan.cell_of, others, plan.cells)
    witness, sums = measured(
        plan, publish, seen, np.random.default_rng(3), clients=clients, size=2_000
    )
    assert divergence_sum(witness, sums, 1e-4).p_value() >= 0.3
    assert lower_confidence_bound(witness, sums).lower <= 0


@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.3])
def test_clients_of_many_sizes_and_kinds_are_bounded(plan_for, publish, zipf, threshold):
    """D_θ is about .16, by large clients that hold other symbols: at most 12 of 60 bounds fail."""
    pi, rng, failed = zipf(10), np.random.default_rng(9), 0
    plan = plan_for(pi)
    kinds = np.array([np.where(np.arange(10) < 5, pi, 0), np.where(np.arange(10) < 5, 0, pi)])
    kinds = np.array([np.bincount(plan.cell_of, kind / kind.sum(), plan.cells) for kind in kinds])
    sizes, parts = np.array([60, 5]), np.array([0.3, 0.7])
    law = parts * sizes @ kinds / (parts @ sizes)
    exact = float(plan.mass @ np.log(plan.mass / (0.99 * law + 0.01 * plan.mass)))
    for _ in range(60):
        kind = rng.choice(2, size=40, p=parts)
        first = publish(plan, rng.multinomial(800, law), 1.0, int(rng.integers(1 << 30)))
        deciding = Deciding(40, 860.0, 60, GUARANTEE, 30.0, threshold)
        witness = Witness.from_counts(first, deciding)
        counts = rng.multinomial(sizes[kind], kinds[kind])
        sums = summed(witness, counts, rng)
        failed += lower_confidence_bound(witness, sums).lower > exact
    assert failed <= 12


def test_clients_that_are_alike_widen_the_bound(plan_for, publish, zipf):
    pi, rng = zipf(20), np.random.default_rng(7)
    plan = plan_for(pi)
    witness, sums = measured(plan, publish, np.roll(plan.mass, 1), rng)
    steps = sums.steps.copy()
    steps[NUMBERS.index("squares")] *= 20
    alike = ClientSums(steps, sums.clients, EVENT, sums.plan, False)
    one, other = (lower_confidence_bound(witness, s) for s in (sums, alike))
    assert other.lower < one.lower


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
        assert limits.upper - limits.lower < 0.2


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
