"""Tests by all counts of a cohort, against laws made to break them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr

from flwr_kld import Labels, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.common.search import root
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.divergence_test import (
    _noise_nodes,
    _record_nodes,
    _Terms,
    divergence_tests,
    log_evidence,
)
from flwr_kld.infer.outside import outside_by_counts
from flwr_kld.infer.power import published
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.trust.calibration import calibrated_gaussian
from flwr_kld.trust.trusted import Trusted

THETA = 0.01


class Gaussian(Trusted):
    """Gaussian noise, although less of another law would do."""

    def event(self, clients):
        return calibrated_gaussian(self.guarantee, moves=self.allotment.moves("record"))


def zipf(symbols):
    law = 1 / np.arange(1, symbols + 1)
    return law / law.sum()


def plan_of(law):
    reference = Reference.from_probabilities(Labels(list(range(len(law)))), law)
    return Partition(1000).draw(reference, np.random.default_rng(0))


def at(law, towards, nats):
    """The law on the way to another, or beyond it, at which D_θ is so many nats."""
    if not nats:
        return law
    part = root(
        lambda a: skewed_divergence(law, (1 - a) * law + a * towards, THETA) - nats,
        0.0, 1.0, within=1e-9,
    )  # fmt: skip
    return (1 - part) * law + part * towards


def drifted(shape, symbols, nats):
    law, rng = zipf(symbols), np.random.default_rng(symbols)
    some = np.zeros(symbols)
    if shape == "spread":
        some = law * np.exp(3 * rng.standard_normal(symbols))
    elif shape == "rare":
        some[-1] = 1.0
    elif shape == "heavy":
        some[0] = 1.0
    elif shape == "half vanishes":
        some = law * (np.arange(symbols) % 2)
    elif shape == "tail vanishes":
        some = law * (np.arange(symbols) < max(symbols // 2, 1))
    return at(law, some / some.sum(), nats)


def published_of(plan, law, records, trust, rng):
    counts = np.zeros(plan.cells, dtype=np.int64)
    counts[plan.cell_of[: len(law)]] = rng.multinomial(records, law)
    return published(counts, plan, trust.event(10), SeededBits(int(rng.integers(2**62))))


class OfOne:
    """The tests of columns, of one column."""

    def __init__(self, counts, error):
        self.tests = divergence_tests([counts], error=error)

    def p_value(self, nats):
        return self.tests.p_values(nats).item()

    def at_least(self, level):
        return self.tests.at_least(level).item()


def read_of(counts, error=0.05):
    return OfOne(counts, error)


@pytest.mark.parametrize("shape", ["spread", "rare", "heavy", "half vanishes", "tail vanishes"])
@pytest.mark.parametrize(
    ("symbols", "records", "trust"),
    [
        (2, 500, Trusted(1.0)),
        (20, 3_000, Gaussian(0.3, 1e-6)),
        pytest.param(20, 20_000, Gaussian(0.1, 1e-6), marks=pytest.mark.slow),
        (100, 500, Trusted(1.0)),
        (100, 3_000, Trusted(1.0, protects=WholeClients(1))),
        pytest.param(20, 200_000, Trusted(1.0), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("nats", [pytest.param(0.01, marks=pytest.mark.slow), 0.1])
def test_the_level_is_kept_where_the_drift_is_exactly_what_is_tolerated(
    shape, symbols, records, trust, nats
):
    """At 5 %, more than 5 of 12 have a probability of 1e-5, for each of 60 laws."""
    law, rng = drifted(shape, symbols, nats), np.random.default_rng([symbols, records])
    plan = plan_of(zipf(symbols))
    found = [
        read_of(published_of(plan, law, records, trust, rng)).p_value(nats) < 0.05
        for _ in range(12)
    ]
    assert sum(found) <= 5


@pytest.mark.parametrize(
    ("symbols", "records", "nats", "least"), [(10, 3_000, 0.2, 9), (300, 10_000, 0.2, 9)]
)
def test_drifts_are_found_at_the_level_of_a_check_of_a_year(symbols, records, nats, least):
    plan, rng, level = plan_of(zipf(symbols)), np.random.default_rng(1), 0.01 / 365
    law = drifted("spread", symbols, nats)
    checks = [
        read_of(published_of(plan, law, records, Trusted(1.0), rng), level) for _ in range(10)
    ]
    assert sum(check.p_value(0.1) < level for check in checks) >= least
    assert all(check.at_least(0.95) > 0.1 for check in checks)
    assert sum(check.at_least(0.95) <= nats for check in checks) >= least
    assert np.mean([log_evidence(check.p_value(0.1)) for check in checks]) > math.log(30)


def test_normal_noise_in_large_cells_is_no_worse_than_it_is():
    """Its law is known by its variance, even where that is above that of drawing records."""
    plan, rng = plan_of(zipf(20)), np.random.default_rng(2)
    law, trust = at(zipf(20), rng.dirichlet(np.ones(20)), 0.02), Gaussian(0.1, 1e-6)
    checks = [read_of(published_of(plan, law, 60_000, trust, rng)) for _ in range(5)]
    assert all(0.0125 < check.at_least(0.95) < 0.02 for check in checks)


def test_clients_who_differ_are_no_chance():
    """Sums of records of unlike clients vary less than as many records of one law."""
    law, rng = drifted("spread", 20, 0.1), np.random.default_rng(2)
    plan, found = plan_of(zipf(20)), 0
    laws = rng.dirichlet(0.5 * law, 20)
    own = laws.mean(axis=0)
    truth = skewed_divergence(zipf(20), own, THETA)
    for _ in range(40):
        counts = np.zeros(plan.cells, dtype=np.int64)
        counts[plan.cell_of[:20]] = sum(rng.multinomial(200, each) for each in laws)
        event, bits = Trusted(1.0).event(20), SeededBits(int(rng.integers(2**62)))
        found += read_of(published(counts, plan, event, bits)).p_value(truth) < 0.05
    assert found <= 8


def test_a_p_value_falls_with_the_bound():
    plan, rng = plan_of(zipf(20)), np.random.default_rng(3)
    check = read_of(published_of(plan, drifted("spread", 20, 0.2), 3_000, Trusted(1.0), rng))
    p = [check.p_value(nats) for nats in (0.0, 0.05, 0.1, 0.15, 0.2, 0.4)]
    assert p == sorted(p)
    assert p[-1] > 0.99
    level = 0.95
    bound = check.at_least(level)
    assert check.p_value(bound - 1e-6) < 1 - level + 1e-3 < check.p_value(bound + 0.01) + 1e-3


def test_evidence_has_a_mean_of_at_most_one_for_uniform_p_values():
    """By quadrature over p, which is the largest that p-values may be."""
    p = (np.arange(100_000) + 0.5) / 100_000
    e = (1 - p + p * np.log(p)) / (p * np.log(p) ** 2)
    assert e.mean() < 1 + 1e-3


@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.05])
def test_limits_of_what_lies_outside_hold_for_all_records(protects, share):
    law = np.append((1 - share) * zipf(20), [share, 0.0])
    plan, rng = plan_of(zipf(20)), np.random.default_rng(4)
    trust, missed, false = Trusted(1.0, protects=protects), 0, 0
    for _ in range(60):
        counts = published_of(plan, law, 5_000, trust, rng)
        limits, p_value = outside_by_counts(counts, share, level=0.95)
        missed += not limits.lower <= share <= limits.upper
        false += p_value < 0.05
    assert missed <= 15
    assert false <= 9
    assert outside_by_counts(counts, 0.2, level=0.95)[1] > 0.05
    if share > 0.01:
        assert outside_by_counts(counts, 0.001, level=0.95)[1] < 1e-6


def test_counts_that_no_drift_explains_are_no_error():
    """All records in one cell, none at all, or negative numbers alone."""
    plan, trust = plan_of(zipf(20)), Trusted(1.0)
    for counts in ([5_000, *[0] * 21], [0] * 22, [-30] * 22, [0] * 20 + [5_000, 0]):
        noisy = published(np.array(counts), plan, trust.event(10), SeededBits(1))
        check = read_of(noisy)
        assert 0 <= check.p_value(0.1) <= 1
        assert not math.isnan(check.at_least(0.95))


def moved_along(law, kind, nats):
    """A law that has drifted along the order of its symbols."""
    place = np.cumsum(law) - law / 2
    direction = {"up": place, "down": -place, "out": (place - 0.5) ** 2}[kind]
    return at(law, law * np.exp(6 * direction) / (law * np.exp(6 * direction)).sum(), nats)


@pytest.mark.parametrize("kind", ["up", "down", "out"])
@pytest.mark.parametrize(
    ("symbols", "records", "trust", "nats"),
    [
        (20, 36_000, Gaussian(1.0, 1e-6), 0.0),
        (20, 3_000, Trusted(0.3), 0.05),
        (100, 2_000, Trusted(1.0, protects=WholeClients(1)), 0.05),
        (8, 300, Trusted(1.0), 0.05),
    ],
)
def test_the_level_is_kept_along_the_order_of_the_symbols(kind, symbols, records, trust, nats):
    """At 5 %, more than 8 of 40 have a probability of 1e-5, for each of 12 laws."""
    base = np.full(symbols, 1 / symbols)
    law, rng = moved_along(base, kind, nats), np.random.default_rng([symbols, records])
    plan = plan_of(base)
    found = [
        read_of(published_of(plan, law, records, trust, rng)).p_value(nats) < 0.05
        for _ in range(40)
    ]
    assert sum(found) <= 8


@pytest.mark.parametrize("kind", ["up", "down", "out"])
def test_small_drifts_along_the_order_are_found_at_the_level_of_a_year(kind):
    base, rng, level = np.full(20, 1 / 20), np.random.default_rng(1), 0.01 / 365
    plan, law = plan_of(base), moved_along(base, kind, 0.0015)
    trust = Gaussian(1.0, 1e-6)
    checks = [read_of(published_of(plan, law, 36_000, trust, rng), level) for _ in range(10)]
    assert sum(check.p_value(0.0) < level for check in checks) >= 9


def gone(symbols):
    law = np.full(symbols, 1 / symbols)
    law[[symbols // 4, symbols // 2]] = 0
    return law / law.sum()


@pytest.mark.parametrize(
    ("base", "law", "records", "least"),
    [
        (np.full(50, 1 / 50), gone(50), 10_000, 10),  # two of fifty labels vanished, .145 nats
        (zipf(20), drifted("spread", 20, 0.12), 2_000, 9),
        (zipf(20), moved_along(zipf(20), "up", 0.12), 2_000, 5),
        (zipf(20), drifted("tail vanishes", 20, 0.13), 2_000, 6),
    ],
)
def test_ordinary_drifts_are_found_at_the_level_of_a_check_of_a_year(base, law, records, least):
    plan, rng, level = plan_of(base), np.random.default_rng(3), 0.01 / 365
    checks = [
        read_of(published_of(plan, law, records, Trusted(1.0, 1e-6), rng), level) for _ in range(10)
    ]
    assert sum(check.p_value(0.05) < level for check in checks) >= least


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.3, 2.0, 40.0, 1e6])
def test_a_few_values_stand_for_a_number_of_records(mean):
    values, weights = _record_nodes(np.array(mean))
    assert weights.sum() == pytest.approx(1, abs=1e-5)
    assert weights @ values == pytest.approx(mean, rel=1e-3)
    assert weights @ (values - mean) ** 2 == pytest.approx(mean, rel=1e-3)
    assert weights @ (values - mean) ** 3 == pytest.approx(mean, rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("trust", [Trusted(1.0), Trusted(0.3, 1e-6), Trusted(30.0, 1e-6)])
def test_a_few_values_stand_for_the_noise(trust):
    noise = trust.event(10).noise
    values, weights = (nodes.ravel() for nodes in _noise_nodes(noise))
    for power in (0, 2, 4, 6):
        exact = noise.probabilities @ noise.support.astype(float) ** power
        assert weights @ values**power == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("trust", [Trusted(1.0), Trusted(0.3, 1e-6)])
@pytest.mark.parametrize("symbols", [2, 20])
def test_the_tail_is_the_simulated_one_of_the_law_itself(trust, symbols):
    """Where nothing drifted, one law is tried; 200,000 releases tell a tail of .001 by 7 %.

    Rare noise that empties a cell makes tails heavy: p is at least .7 of the tail, at most twice.
    """
    plan, rng = plan_of(zipf(symbols)), np.random.default_rng(5)
    counts = published_of(plan, zipf(symbols), 2_000, trust, rng)
    ((_, given),) = read_of(counts).tests.shapes
    noise, ins, draws, row = trust.event(10).noise, symbols, 200_000, np.zeros(1, dtype=int)
    chance = noise.probabilities / noise.probabilities.sum()
    counts = rng.poisson(2_000 * given.mass[0], (draws, ins))
    counts = (counts + rng.choice(noise.support, (draws, ins), p=chance)).astype(float)
    out = rng.choice(noise.support, (draws, int(given.cells_outside[0])), p=chance).sum(axis=1)
    drawn = given._read(counts[:, None], row)[:, 0].sum(axis=1)
    drawn += given._weight_outside(np.zeros(1), row) * out
    for tail in (0.05, 0.001):
        there = replace(given, outside=np.zeros(1))
        there.__dict__["_of_counts"] = np.quantile(drawn, [1 - tail])
        (at,) = there._of_ratios(np.zeros(1), row)
        assert 0.7 < float(ndtr(-at)) / tail < 2


def test_values_without_weight_count_at_no_slope():
    """Else a sum beyond all that laws make likely looks usual: p was .6 for very clear drifts."""
    values, weights = np.array([[0.0, 1.0, 10.0], [0.5, 0.5, 0.0]])[..., None, None]
    terms = _Terms(values, weights).centred(np.array([0]))
    for slope in (1.0, 100.0, 10_000.0):
        (moment,), (mean,), _ = terms.cumulants(np.array([slope]))
        assert mean <= 0.5
        assert moment <= 0.5 * slope
