"""Forecasts of evidence over checks, against checks simulated client by client."""

import math
from functools import partial

import numpy as np
import pytest

from flwr_kld import Labels, Reference
from flwr_kld.inference.bets import log_evidence
from flwr_kld.inference.deciding import Deciding, default_most_records
from flwr_kld.inference.e_detector import EDetector
from flwr_kld.inference.witness import Witness
from flwr_kld.kernel.count import answer_of
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.planner.delay import expected_delays, expected_growth
from flwr_kld.planner.detection import Whole
from flwr_kld.planner.drift import Drift
from flwr_kld.planner.setting import published
from flwr_kld.query.noisy import ClientSums
from flwr_kld.query.partition import Partition
from flwr_kld.trust.trusted import Trusted

K, HALF, EACH, THRESHOLD = 100, 100, 50, 0.05
RECORDS = HALF * EACH
REFERENCE = Reference.from_counts(
    Labels([f"{i}" for i in range(K)]), (1e6 / np.arange(1, K + 1)).astype(int)
)
PLAN = Partition(1000).draw(REFERENCE, np.random.default_rng(0))
TRUST = Trusted(1.0)
EVENT, NOISE = TRUST.event(HALF), TRUST.sums_event(HALF)
DECIDING = Deciding(
    clients=HALF, records=RECORDS, most_records=default_most_records(RECORDS, HALF),
    guarantee=TRUST.guarantee, noise=math.sqrt(NOISE.table.variance), threshold=THRESHOLD,
)  # fmt: skip


def first_half(p, generator, bits):
    return published(generator.multinomial(RECORDS, p), PLAN, EVENT, bits)


def simulated(p, checks):
    """ln e of checks in which every client draws, answers and is added up."""
    generator, bits, found = np.random.default_rng(1), SeededBits(1), []
    for _ in range(checks):
        witness = Witness.from_counts(first_half(p, generator, bits), DECIDING)
        clients = generator.multinomial(EACH, p, HALF)
        coins = bits.words(5 * len(clients)).reshape(-1, 5)
        answers = answer_of((witness.scores,), clients, TRUST.guarantee, coins)
        steps = np.sum(answers, axis=0) + sample(NOISE.table, len(answers[0]), bits)
        sums = ClientSums(steps, HALF, NOISE, witness.query_plan(), False)
        found.append(log_evidence(witness, sums))
    return np.array(found)


@pytest.mark.parametrize("divergence", [0.1, 0.2])
def test_a_check_adds_what_is_forecast(divergence):
    law = Drift(REFERENCE).at(divergence, DECIDING.theta)
    p = np.bincount(PLAN.cell_of, law, PLAN.cells)
    p /= p.sum()
    first = first_half(p, np.random.default_rng(2), SeededBits(2))
    growth = expected_growth(first, DECIDING, NOISE.table, law)
    seen = simulated(p, 24)
    error = seen.std() / math.sqrt(len(seen))
    assert abs(growth.mean - seen.mean()) < 4 * error + 0.1 * seen.mean()
    assert 0.6 < growth.deviation / seen.std() < 1.6


def test_larger_drifts_are_found_sooner_and_impossible_ones_are_left_out():
    p = np.bincount(PLAN.cell_of, REFERENCE.probabilities, PLAN.cells)
    first = first_half(p / p.sum(), np.random.default_rng(2), SeededBits(2))
    divergences = (THRESHOLD, 0.1, 0.2, 9.0)

    def delays(divergences, **options):
        grown = partial(expected_growth, first, DECIDING, NOISE.table, **options)
        return expected_delays(EDetector(), divergences, REFERENCE, DECIDING.theta, grown)

    at, near, far = delays(divergences)
    assert (at.divergence, at.checks) == (THRESHOLD, None)
    assert (near.divergence, far.divergence) == (0.1, 0.2)
    assert 1 <= far.checks < near.checks < 100
    (alike,) = delays([0.1], design_effect=10.0)  # records of one client are alike
    assert alike.checks is None or alike.checks > near.checks


@pytest.mark.parametrize("divergence", [THRESHOLD, 0.1])
def test_what_counts_of_a_whole_cohort_add_is_forecast(divergence):
    law = Drift(REFERENCE).at(divergence, DECIDING.theta)
    check = Whole(PLAN, EVENT, RECORDS, THRESHOLD, DECIDING.theta, 0.95, 1e-4)
    growth, generator, bits = check.growth(law), np.random.default_rng(5), SeededBits(5)
    p = np.bincount(PLAN.cell_of, law, PLAN.cells)
    seen = np.array(
        [
            check.read(first_half(p / p.sum(), generator, bits)).log_evidence(THRESHOLD)
            for _ in range(16)
        ]
    )
    error = math.hypot(seen.std() / 4, growth.deviation / 8**0.5)
    assert abs(growth.mean - seen.mean()) < 5 * error
    assert (growth.mean > 0) is (divergence > THRESHOLD)
