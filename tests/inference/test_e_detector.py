"""Evidence from bets: its mean is at most 1 for every law within the bound, by enumeration."""

import itertools
import json
import math

import numpy as np
import pytest

from flwr_kld.counts.client_sums import ClientSums
from flwr_kld.inference.e_detector import EDetector, _log_moment, log_evidence
from flwr_kld.privacy import Guarantee
from flwr_kld.privacy.calibrate import calibrated_laplace
from flwr_kld.query.plan import QueryPlan
from flwr_kld.query.scores import MOVES, NUMBERS, Scores

W = NUMBERS.index("log_wealth")


def plan_of(plan, scores):
    return QueryPlan(
        plan.reference, plan.cell_of, plan.weight, plan.inclusion, plan.stratum, scores=scores
    )


def mean_of_evidence(plan, scores, epsilon):
    """Return what says ``E e`` of laws exactly: over clients' sums, their coins and the noise."""
    event = calibrated_laplace(Guarantee(epsilon), shifts=MOVES)
    unit = scores.units(event.guarantee)[W]
    base = ClientSums(np.zeros(len(NUMBERS), np.int64), 2, event, plan_of(plan, scores), False)
    at_zero = log_evidence(base)
    one_step = np.zeros(len(NUMBERS), np.int64)
    one_step[W] = 1
    slope = log_evidence(ClientSums(one_step, 2, event, base.plan, False)) - at_zero
    by_noise = math.exp(at_zero + _log_moment(event.table, slope))

    def mean(laws):
        product = by_noise
        for law in laws:
            of_client = 0.0
            for counts, probability in law:
                total = float(counts @ np.array(scores.divergence))
                exact = math.log1p(scores.stake * total) / unit
                up = exact - math.floor(exact)
                low = math.exp(slope * math.floor(exact))
                of_client += probability * low * (1 - up + up * math.exp(slope))
            product *= of_client
        return product

    return mean


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("by", ["client"])
def test_the_mean_is_at_most_1_for_every_law_of_clients(plan_for, epsilon, by):
    """All laws on a grid over clients of at most 2 records whose mean score is at most 0."""
    plan = plan_for(np.full(16, 1 / 16))
    table = np.zeros(16, dtype=int)
    table[:3] = (3, -1, -9)
    scores = Scores(tuple(table.tolist()), (0,) * 16, 0.5 / 18 * (1 - 1e-9), 2, by)
    clients = [
        np.eye(16, dtype=np.int64)[list(c)].sum(axis=0) if c else np.zeros(16, np.int64)
        for n in range(3)
        for c in itertools.combinations_with_replacement(range(3), n)
    ]
    sums = np.array([c @ table for c in clients])
    mean, worst = mean_of_evidence(plan, scores, epsilon), 0.0
    for i, j in itertools.product(range(len(clients)), repeat=2):
        for p in np.linspace(0, 1, 21):
            if p * sums[i] + (1 - p) * sums[j] <= 0:
                law = [(clients[i], p), (clients[j], 1 - p)]
                worst = max(worst, mean([law, law]))
    assert 0.9 < worst <= 1


def test_a_long_tail_below_wins_nothing(plan_for):
    """The law on which clipped bets had a mean of 2.59 a check: +1 nine times of ten, else -9."""
    plan = plan_for(np.full(16, 1 / 16))
    scores = Scores((1, -9, *(0,) * 14), (0,) * 16, 0.055, 1, "client")
    up, down = np.eye(16, dtype=np.int64)[:2]
    law = [(up, 0.9), (down, 0.1)]
    assert mean_of_evidence(plan, scores, 1.0)([law] * 200) <= 1


def test_the_moment_is_that_of_the_whole_law():
    table = calibrated_laplace(Guarantee(0.5), shifts=(3,)).table
    ratio = math.exp(-0.5 / 3)
    slope = 0.1
    exact = (1 - ratio) ** 2 / ((1 - ratio * math.exp(slope)) * (1 - ratio * math.exp(-slope)))
    assert _log_moment(table, slope) == pytest.approx(math.log(exact), rel=1e-4)
    assert _log_moment(table, 0.17) == math.inf


def test_evidence_adds_up_and_forgets_what_was_lost():
    detector = EDetector(0.05, 10)
    assert detector.update(-5.0).evidence == pytest.approx(0.1 * math.exp(-5))
    standing = detector.update(math.log(300))
    assert standing.evidence == pytest.approx((0.1 + 0.1 * math.exp(-5)) * 300)
    assert standing.alarmed
    assert detector.update(1e6).evidence == pytest.approx(2000)


def test_a_state_is_read_back_exactly_and_others_are_refused():
    detector = EDetector(0.03, 365)
    detector.update(1.234567)
    state = json.loads(json.dumps(detector.state()))
    again = EDetector.restore(state)
    assert again.update(0.3) == detector.update(0.3)
    for wrong in ({"schema": 1}, {"evidence": -1.0}, {"rate": 2.0}):
        with pytest.raises(ValueError, match=r"state|rate"):
            EDetector.restore(state | wrong)


def run_lengths(detector, growth, deviation, runs, seed):
    """Checks until each of many alarms, which all see normal ln e, by the detector's recursion."""
    rng, evidence = np.random.default_rng(seed), np.zeros(runs)
    lengths, checks = np.zeros(runs), 0
    while not lengths.all():
        checks += 1
        evidence = (evidence + 1 / detector.horizon) * np.exp(rng.normal(growth, deviation, runs))
        lengths[(lengths == 0) & (evidence >= 1 / detector.rate)] = checks
    return lengths


def test_false_alarms_are_as_far_apart_as_is_said():
    """Bets of mean 1 alarm after 50 checks on average at least, and not after far more.

    The mean of 4,000 runs has a standard error of about 1; the sharp value is 50 times the mean
    overshoot, which is e^0.58 for bets of one standard deviation.
    """
    detector = EDetector(0.2, 10)
    assert detector.between_false_alarms == 50
    mean = run_lengths(detector, -0.5, 1.0, 4000, seed=1).mean()
    assert 50 < mean < 50 * math.exp(0.7)


def test_no_more_stretches_than_stated_have_a_false_alarm():
    detector = EDetector(0.2, 10)
    lengths = run_lengths(detector, -0.5, 1.0, 4000, seed=2)
    share = (lengths <= detector.horizon).mean()
    assert 0.02 < share <= 0.2


@pytest.mark.parametrize(
    ("growth", "deviation"), [(0.02, 0.2), (0.1, 0.5), (0.16, 1.4), (1.5, 1.3), (0.85, 0.3), (4, 3)]
)
def test_half_of_the_drifts_are_found_within_the_delay(growth, deviation):
    """From the faintest bets to the boldest; both medians err by a few per cent."""
    detector = EDetector(0.03, 365)
    lengths = run_lengths(detector, growth, deviation, 2000, seed=3)
    delay = detector.delay(growth, deviation)
    assert (lengths < 0.85 * delay - 0.5).mean() < 0.5 < (lengths <= 1.15 * delay).mean()


def test_what_does_not_grow_is_never_found_and_what_leaps_at_once():
    detector = EDetector(0.05, 365)
    assert detector.delay(0.0, 1.0) == detector.delay(-1.0, 1.0) == math.inf
    assert detector.delay(50.0, 1.0) == 1
    assert detector.delay(2.0, 0.0) == 5  # ln 7300 = 8.9 nats, and later bets help
    assert EDetector(0.05, 1).delay(0.01, 0.0) == math.inf
    with pytest.raises(ValueError, match="deviation"):
        detector.delay(1.0, -1.0)


def test_the_recursion_of_these_tests_is_the_detectors():
    detector = EDetector(0.03, 365)
    (checks,) = run_lengths(detector, 0.4, 1e-12, 1, seed=0)
    for _ in range(int(checks) - 1):
        assert not detector.update(0.4).alarmed
    assert detector.update(0.4).alarmed
