from dataclasses import replace

import numpy as np
import pytest
from chance import most
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.kernel.promise import WholeClients


def lognormal(p, amount, seed=5):
    q = p * np.exp(amount * np.random.default_rng(seed).standard_normal(len(p)))
    return q / q.sum()


def population(drift, p):
    """Nothing moved, every symbol did, or 30 % of them nearly vanished."""
    rng = np.random.default_rng(len(p))
    spread, kept = rng.normal(0, 1, len(p)), rng.random(len(p)) < 0.7
    moved = {"none": p, "spread": p * np.exp(0.7 * spread), "vanished": p * np.where(kept, 1, 0.1)}
    return moved[drift] / moved[drift].sum()


@pytest.mark.parametrize(
    ("drift", "records", "within"),
    [
        ("none", 20_000, 0.005), ("spread", 20_000, 0.015), ("vanished", 5_000, 0.08),
    ],
)  # fmt: skip
def test_drifts_of_any_shape(plan_for, release, zipf, drift, records, within):
    p = zipf(1000, 0.9)
    q, plan = population(drift, p), plan_for(p)
    truth, off, scaled = skewed_divergence(p, q, 0.01), [], []
    for seed in range(6):
        h = np.random.default_rng(seed).multinomial(records, q)
        got = posterior_ratios(release(plan, h, 1.0, seed)).population
        off.append(got.value - truth)
        scaled.append(off[-1] / got.error.total)
    assert np.sqrt(np.mean(np.square(off))) < within
    assert 0.2 < np.sqrt(np.mean(np.square(scaled))) < 2.5


def test_a_tilt_from_frequent_to_rare_symbols_is_within_its_error(plan_for, release, zipf):
    p = zipf(600, 1.0)
    q = p * np.exp(1.4 * np.linspace(-1, 1, len(p)))
    q, plan = q / q.sum(), plan_for(p)
    truth, within = skewed_divergence(p, q, 0.01), 0
    for seed in range(10):
        h = np.random.default_rng(seed).multinomial(10_000, q)
        got = posterior_ratios(release(plan, h, 1.0, seed)).population
        within += abs(got.value - truth) <= 2 * got.error.total
    assert within >= 8


@pytest.mark.parametrize("records", [10**7, 10**9, 10**11])
@pytest.mark.parametrize("p", [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.6, 0.3, 0.08, 0.02])])
def test_any_number_of_records_is_read(plan_for, release, p, records):
    q = np.array([0.1, 0.2, 0.3, 0.4])[::-1]
    plan, truth = plan_for(p), skewed_divergence(p, q, 0.01)
    for seed in range(10):
        h = np.round(q * records).astype(np.int64)
        h[0] += records - h.sum()
        got = posterior_ratios(release(plan, h, 3.0, seed)).population
        assert abs(got.value - truth) < 1e-3 * truth


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("cells", [600, 65_536])
def test_a_small_undrifted_cohort_reads_zero(plan_for, release, zipf, cells):
    p = zipf(65_536)
    plan = plan_for(p, cells=cells)
    for seed in range(3):
        h = np.random.default_rng(seed).multinomial(20_000, p)
        counts = release(plan, h, 1.0, seed)
        assert posterior_ratios(counts).cohort.value > 0.9
        got = posterior_ratios(counts).population
        assert abs(got.value) < min(0.2, 2 * got.error.total)


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize(
    ("amount", "records", "epsilon", "cells", "within"),
    [
        (0.5, 20_000, 1.0, 600, 0.09),
        (1.0, 350_000, 0.5, 600, 0.12),
        pytest.param(1.0, 350_000, 1.0, 65_536, 0.03, marks=pytest.mark.slow),
        pytest.param(1.0, 1_000_000, 0.05, 65_536, 0.1, marks=pytest.mark.slow),
    ],
)
def test_recovers_known_drift_within_the_stated_error(
    plan_for, release, zipf, amount, records, epsilon, cells, within
):
    p = zipf(65_536)
    scaled = []
    for seed in range(8):
        q = lognormal(p, amount, seed)
        h = np.random.default_rng(seed).multinomial(records, q)
        got = posterior_ratios(
            release(plan_for(p, cells=cells, seed=seed), h, epsilon, seed)
        ).population
        off = got.value - skewed_divergence(p, q, 0.01)
        assert abs(off) < within
        scaled.append(off / got.error.total)
    assert np.sqrt(np.mean(np.square(scaled))) < 4


@pytest.mark.rate(1e-4)
def test_drift_of_rare_symbols_shows_in_remainders_alone(plan_for, release, zipf):
    # Rare symbols hardly meet the query one by one; what their bins hold together tells.
    p, told = zipf(65_536), []
    q = np.arange(1, 65_537) ** -1.5
    q /= q.sum()
    truth = skewed_divergence(p, q, 0.01)
    for seed in range(8):
        h = np.random.default_rng(seed).multinomial(20_000, q)
        counts = release(plan_for(p, cells=200), h, 0.5, seed)
        got, bins = posterior_ratios(counts).population, counts.plan.weight == 0
        assert abs(got.value - truth) < 3 * got.error.total < 1.2
        shut = np.where(bins, counts.values[bins].mean(), counts.values).astype(int)
        told.append(
            abs(posterior_ratios(replace(counts, values=shut)).population.value - got.value)
        )
    assert np.mean(told) > 0.2


def apart(values):
    """Half of the distance between quartiles over that of normal numbers: one in eight may err."""
    return np.diff(np.quantile(values, [0.25, 0.75]))[0] / 1.349


@pytest.mark.rate(1e-4)
def test_known_total_speaks_where_single_counts_cannot(plan_for, release, exact, zipf):
    # Half of P lies where the reference says nothing is: r is 1/2 everywhere else.
    p = np.append(zipf(300), 0.0)
    read, of_cohort, truth, errors = [], [], [], []
    for seed in range(8):
        h = np.append(np.random.default_rng(seed).multinomial(10_000, zipf(300)), 10_000)
        truth.append(exact(p, h))
        counts = release(plan_for(p), h, 0.05, seed)
        promised = replace(counts.event.guarantee, protects=WholeClients(1))
        event = replace(counts.event, guarantee=promised)
        known, summed = (posterior_ratios(one) for one in (counts, replace(counts, event=event)))
        read.append(known.population.value)
        of_cohort.append(known.cohort.value)
        errors.append((known.population.error.total, summed.population.error.total))
    assert np.mean(read) == pytest.approx(np.log(2), abs=0.1)
    assert apart(read) < 0.15
    assert np.mean(of_cohort) == pytest.approx(np.mean(truth), abs=0.25)
    assert apart(of_cohort) < 0.1
    # Where N itself is the sum of the noisy counts it may not be trusted as much.
    known, summed = np.mean(errors, axis=0)
    assert summed > known


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_states_what_rare_symbols_hide(plan_for, release, zipf, epsilon):
    # Two samples of one law: common symbols agree, and half of the rare ones are in one of them
    # only. Noise hides that, so it has to be in the deviation.
    true, scaled = zipf(2000, 1.5), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        p, q = (rng.multinomial(3_500, true) for _ in range(2))
        counts = release(plan_for(p / 3_500), rng.multinomial(3_500, q / 3_500), epsilon, seed)
        got = posterior_ratios(counts).population
        scaled.append((got.value - skewed_divergence(p / 3_500, q, 0.01)) / got.error.total)
    assert 0.2 < np.sqrt(np.mean(np.square(scaled))) < 2.5


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("effect", [1, 3, 9, 50])
def test_clusters_of_records_tell_less_and_are_no_drift(plan_for, release, zipf, effect):
    """Clients of 50 records, whose counts vary by the design effect; a drift, and none."""
    rng, still = np.random.default_rng(0), zipf(20)
    moved = still * np.exp(0.4 * np.linspace(-1, 1, 20))
    moved /= moved.sum()
    for law in (still, moved):
        truth, found = skewed_divergence(still, law, 0.01), []
        for seed in range(40):
            drawn = law
            if effect > 1:
                drawn = rng.dirichlet((20_000 - effect) / (effect - 1) * law)
            counts = release(plan_for(still), rng.multinomial(20_000, drawn), 1.0, seed)
            told = posterior_ratios(counts, effects=DesignEffects(effect, most=20_000)).population
            found.append((told.value - truth, told.error.total))
        off, stated = np.array(found).T
        assert np.sqrt(np.mean((off / stated) ** 2)) < 1.25 + 5 / np.sqrt(2 * len(off))
        assert np.sum(np.abs(off) > 2 * stated) <= most(len(off), 0.05)
        by_chance = effect * 20 / (2 * 20_000)  # the mean divergence of such a cohort's own counts
        assert law is moved or off.mean() < 0.5 * by_chance


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize(
    ("symbols", "clients", "records", "concentration", "moves"),
    [(600, 600, 30, 2.0, 3.0), (20, 120, 50, 0.001, 0.0)],
    ids=["lots of any size", "a symbol a client"],
)
def test_clients_whose_laws_vary_tell_no_other_drift(
    plan_for, release, zipf, symbols, clients, records, concentration, moves
):
    """In fixed lots the first reads far too little; in lots of any size the second drifts.

    The first reads about a tenth too little, which is more than its stated error.
    """
    still, found = zipf(symbols), []
    moved = still * np.exp(moves * np.random.default_rng(3).standard_normal(symbols))
    moved /= moved.sum()
    truth = skewed_divergence(still, moved, 0.01)
    effects = DesignEffects(1 + (records - 1) / (1 + concentration), most=records)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        laws = rng.dirichlet(concentration * moved, clients)
        counts = release(plan_for(still), rng.multinomial(records, laws).sum(axis=0), 3.0, seed)
        told = posterior_ratios(counts, effects=effects).population
        found.append((told.value - truth, told.error.total))
    off, stated = np.array(found).T
    assert moves or np.sum(np.abs(off) > 2 * stated) <= most(len(off), 0.05)
    assert abs(off.mean()) <= max(0.2 * truth, 0.05)


def test_counts_are_read_by_the_likely_effect_and_doubt_widens_the_error(plan_for, release, zipf):
    counts = release(plan_for(zipf(200)), np.full(200, 40), 1.0)
    likely, safe = DesignEffects(1.0, 50.0), DesignEffects(4.0, 50.0, doubt=3.0)
    sure, doubted = (posterior_ratios(counts, effects=e).population for e in (likely, safe))
    assert doubted.value == pytest.approx(sure.value)
    assert doubted.error.sampling == pytest.approx(1.75**0.5 * sure.error.sampling)


def test_what_is_stated_reaches_to_what_may_be(plan_for, release, zipf):
    """Of counts that vary less than alike records do, an estimate is below 0, where no D is."""
    counts = release(plan_for(zipf(20)), np.rint(100_000 * zipf(20)).astype(int), 1.0)
    told = posterior_ratios(counts, effects=DesignEffects(3.0, 50.0)).population
    assert 0 < -told.value <= told.error.total


@pytest.mark.parametrize("effect", [70_000, 10.0**7])
def test_no_design_effect_loses_a_check(plan_for, release, zipf, effect):
    """Clients of millions of records, all alike."""
    counts = release(plan_for(zipf(20)), 10**6 * np.ones(20, dtype=np.int64), 1.0)
    told = posterior_ratios(counts, effects=DesignEffects(effect)).population
    assert np.isfinite([told.value, told.error.total]).all()


def test_order_within_a_stratum_does_not_matter(plan_for, release, zipf):
    p = np.repeat(zipf(50) / 40, 40)
    plan = plan_for(p)
    h = np.random.default_rng(1).multinomial(5_000, lognormal(p, 1.0))
    counts = release(plan, h, 1.0)
    mass, rng = plan.mass, np.random.default_rng(0)
    order = np.arange(plan.cells)
    for level in np.unique(mass):
        order[mass == level] = rng.permutation(order[mass == level])
    turned = replace(counts, values=counts.values[order])
    assert (turned.values != counts.values).any()
    assert posterior_ratios(turned).population.value == pytest.approx(
        posterior_ratios(counts).population.value, abs=1e-9
    )
    # Across strata it does: the same counts at other masses are another drift.
    moved = replace(counts, values=counts.values[np.argsort(mass)[::-1]][np.argsort(mass)])
    assert (
        abs(posterior_ratios(moved).population.value - posterior_ratios(counts).population.value)
        > 0.1
    )


def test_finite_at_theta_zero(plan_for, release, zipf):
    p = zipf(2000)
    q = lognormal(p, 1.0)
    h = np.random.default_rng(0).multinomial(50_000, q)
    assert (h == 0).any()
    counts = release(plan_for(p), h, 1.0)
    assert posterior_ratios(counts, theta=0.0).population.value == pytest.approx(
        skewed_divergence(p, q, 0.0), abs=0.1
    )
    assert (
        posterior_ratios(counts, theta=0.0).population.value
        > posterior_ratios(counts, theta=0.1).population.value + 0.05
    )


def test_error_grows_with_the_noise_and_shrinks_with_records(plan_for, release, zipf):
    p = zipf(5000)
    plan, q = plan_for(p, cells=300), lognormal(p, 1.0)
    small, large = (
        np.random.default_rng(0).multinomial(records, q) for records in (20_000, 500_000)
    )
    loud, quiet = (
        posterior_ratios(release(plan, small, 0.1)).population.error,
        posterior_ratios(release(plan, small, 3.0)).population.error,
    )
    assert loud.privacy > 2 * quiet.privacy
    assert loud.sampling < loud.privacy
    assert (
        quiet.sampling > 1.5 * posterior_ratios(release(plan, large, 3.0)).population.error.sampling
    )
    silent = posterior_ratios(release(plan, large, np.inf)).population.error
    assert silent.privacy == pytest.approx(0, abs=1e-9)
    assert silent.monte_carlo > 0


def test_large_counts_are_read_without_the_bias_of_the_logarithm(plan_for, release):
    # E[-ln h] is 1 / 2h above -ln E[h]: 0.0033 nats at 150 records a symbol.
    p = np.full(1000, 0.001)
    read = []
    for seed in range(4):
        h = np.random.default_rng(seed).multinomial(150_000, p)
        read.append(posterior_ratios(release(plan_for(p), h, 3.0, seed)).population.value)
    assert abs(np.mean(read)) < 0.001


@pytest.mark.filterwarnings("error")
@settings(max_examples=examples(60))
@given(
    data=st.data(),
    size=st.integers(2, 60),
    epsilon=st.sampled_from([0.05, 1.0, 6.0, np.inf]),
    theta=st.sampled_from([0.0, 1e-6, 0.01, 0.9]),
)
def test_any_counts_give_finite_numbers(plan_for, release, data, size, epsilon, theta):
    masses = data.draw(
        st.lists(st.sampled_from([0.0, 1e-12, 1e-4, 1.0, 50.0]), min_size=size, max_size=size)
    )
    h = data.draw(st.lists(st.sampled_from([0, 1, 7, 1000, 10**6]), min_size=size, max_size=size))
    masses[0], h[0] = 1.0, h[0] + 1
    p = np.array(masses) / sum(masses)
    got = posterior_ratios(
        release(plan_for(p, cells=16), np.array(h), epsilon, 1), theta=theta
    ).population
    assert np.isfinite([got.value, got.error.total]).all()
    if theta:
        assert got.value <= np.log(1 / theta) * (1 + 1e-12) + 1e-9
