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


def mean_of_evidence(plan, scores, epsilon, laws):
    """``E e`` exactly: over two clients' sums, their coins and the noise."""
    event = calibrated_laplace(Guarantee(epsilon), shifts=MOVES)
    unit = scores.units(event.guarantee)[W]
    base = ClientSums(np.zeros(len(NUMBERS), np.int64), 2, event, plan_of(plan, scores), False)
    at_zero = log_evidence(base)
    one_step = np.zeros(len(NUMBERS), np.int64)
    one_step[W] = 1
    slope = log_evidence(ClientSums(one_step, 2, event, base.plan, False)) - at_zero
    mean = math.exp(at_zero + _log_moment(event.table, slope))
    for law in laws:
        of_client = 0.0
        for counts, probability in law:
            exact = math.log1p(scores.stake * float(counts @ np.array(scores.divergence))) / unit
            up = exact - math.floor(exact)
            low = math.exp(slope * math.floor(exact))
            of_client += probability * low * (1 - up + up * math.exp(slope))
        mean *= of_client
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
    worst = 0.0
    for i, j in itertools.product(range(len(clients)), repeat=2):
        for p in np.linspace(0, 1, 21):
            if p * sums[i] + (1 - p) * sums[j] <= 0:
                law = [(clients[i], p), (clients[j], 1 - p)]
                worst = max(worst, mean_of_evidence(plan, scores, epsilon, [law, law]))
    assert 0.9 < worst <= 1


def test_a_long_tail_below_wins_nothing(plan_for):
    """The law on which clipped bets had a mean of 2.59 a check: +1 nine times of ten, else -9."""
    plan = plan_for(np.full(16, 1 / 16))
    scores = Scores((1, -9, *(0,) * 14), (0,) * 16, 0.055, 1, "client")
    up, down = np.eye(16, dtype=np.int64)[:2]
    law = [(up, 0.9), (down, 0.1)]
    assert mean_of_evidence(plan, scores, 1.0, [law] * 200) <= 1


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


def test_the_operating_characteristic():
    """At 2 standard errors and a stake of 1 a check wins 1.5 nats of the 8.9 that are needed."""
    detector = EDetector(0.05, 365)
    assert detector.between_false_alarms == 7300
    assert detector.delay(2.0, 1.0) == pytest.approx(math.log(7300) / 1.5)
    assert detector.delay(0.4, 1.0) == math.inf
    checks = 0
    while not detector.standing.alarmed:
        detector.update(1.5)
        checks += 1
    assert abs(checks - detector.delay(2.0, 1.0)) <= 1
