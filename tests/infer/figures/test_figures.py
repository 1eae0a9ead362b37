"""Figures: exact without noise, unbiased with it, about 0 where nothing drifted, always finite."""

import json
import math
from dataclasses import asdict, astuple

import numpy as np
import pytest
from chance import hold
from hypothesis import given, settings
from hypothesis import strategies as st
from infer.figures.columns import (
    AFTER,
    BEFORE,
    DELAYS,
    GAUSSIAN,
    LAPLACE,
    PORTS,
    RUNS,
    SILENT,
    plan_of,
    read,
    release,
    releases,
)
from pydantic import TypeAdapter
from scipy.spatial.distance import jensenshannon
from scipy.stats import binom, binomtest

from examples import examples
from flwr_kld import Binned, Categories, Labels, Reference
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import HEAD, QueryPlan
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.figures import Figures, distances, figures
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.trust.noise_laws import discrete_gaussian

noises = pytest.mark.parametrize("hidden", [False, True])
DISTANCES = ("psi", "jensen_shannon", "total_variation", "hellinger")


def exact(law, reference):
    return distances(np.asarray(law)[None], np.asarray(reference))[:, 0]


def values(found):
    return np.array([getattr(found, name).value for name in DISTANCES])


def deviations(found):
    return np.array([getattr(found, name).deviation for name in DISTANCES])


def test_distances_are_the_textbook_ones():
    psi, divergence, variation, hellinger = exact(AFTER, BEFORE)
    assert psi == pytest.approx(sum((AFTER - BEFORE) * np.log(AFTER / BEFORE)))
    assert divergence == pytest.approx(jensenshannon(AFTER, BEFORE) ** 2)
    assert variation == pytest.approx(np.maximum(AFTER - BEFORE, 0).sum())
    assert hellinger == pytest.approx(math.sqrt(1 - np.sqrt(AFTER * BEFORE).sum()))


def test_disjoint_laws_have_the_largest_distances():
    psi, divergence, variation, hellinger = exact([1, 0], [0, 1])
    assert (divergence, variation, hellinger) == pytest.approx((math.log(2), 1, 1))
    assert psi == pytest.approx(2 * (1 - 1e-4) * math.log(1e4))  # 1e-4 stands for nothing


@pytest.mark.parametrize("noise", [SILENT, LAPLACE, discrete_gaussian(300.0)])
@pytest.mark.parametrize(
    ("domain", "before", "counts"),
    [
        (PORTS, [0.7, 0.1, 0.1, 0.1], [700, 100, 100, 100, 0, 0]),
        (PORTS, [0.1, 0.2, 0.3, 0.4], [100, 200, 300, 400, 0, 0]),
        (PORTS, [0, 0, 0.3, 0.7], [400, 400, 0, 0, 0, 0]),
        (DELAYS, BEFORE, BEFORE * 1e4),
        (DELAYS, np.eye(8)[0], 90 * np.eye(8)[6]),
    ],
)
def test_intervals_stay_where_figures_can_be(domain, before, counts, noise):
    for seed in range(20):
        found = figures(release(plan_of(domain, before), counts, noise, seed))
        for name, most in zip(DISTANCES, (math.inf, math.log(2), 1, 1), strict=True):
            one = getattr(found, name)
            assert 0 <= one.low <= one.value <= one.high <= most
        if found.ordered is not None:
            one = found.ordered.wasserstein
            assert 0 <= one.low <= one.value <= one.high <= DELAYS.edges[-1] - DELAYS.edges[0]


def test_without_noise_they_are_the_exact_ones():
    found = figures(release(plan_of(DELAYS, BEFORE), AFTER * 1e8))
    assert values(found) == pytest.approx(exact(AFTER, BEFORE), rel=2e-3)
    assert (deviations(found) < 2e-3 * values(found)).all()
    for name, share in zip(("< -10", ">= 240", "missing"), found.shares, strict=True):
        assert share.name == name
        assert share.low <= share.value <= share.high
        assert share.high - share.low < 2e-4
    assert [share.value for share in found.shares] == pytest.approx([0.06, 0.01, 0.05])
    assert [share.reference for share in found.shares] == pytest.approx([0.10, 0.01, 0.02])


def test_limits_of_shares_are_clopper_and_pearsons():
    counts = [40, 30, 20, 5, 4, 1]
    other, missing = figures(release(plan_of(PORTS, [0.4, 0.3, 0.2, 0.1]), counts)).shares
    for share, count in ((other, 4), (missing, 1)):
        # Half of the error is the noise's, of which there is none.
        ends = binomtest(count, 100).proportion_ci(0.975)
        assert (share.low, share.high) == pytest.approx((ends.low, ends.high))
        assert (share.reference, share.value) == pytest.approx((0, count / 100))


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize(("noise", "protects"), [(GAUSSIAN, "record"), (LAPLACE, WholeClients(1))])
def test_where_nothing_drifted_they_read_about_zero(noise, protects):
    """0 is within two deviations of every distance in 97 % of 150 runs, three in 99.5 %."""
    plan, z = plan_of(DELAYS, BEFORE), []
    for counts in releases(plan, BEFORE, 4000, 150, noise, protects=protects):
        found = figures(counts)
        z.append(np.append(values(found), found.ordered.wasserstein.value))
        z[-1] /= np.append(deviations(found), found.ordered.wasserstein.deviation)
    assert hold(np.array(z) < 2, 0.97)
    assert hold(np.array(z) < 3, 0.995)


@pytest.mark.rate(1e-5)
def test_noise_is_not_taken_for_drift():
    """Most of what the noise adds to a plain figure is gone."""
    plain, ours = [], []
    for counts, found in read(drifted=False):
        share = np.maximum(counts.values, 0) / np.maximum(counts.values, 0).sum()
        plain.append(exact(share, counts.plan.mass))
        ours.append(values(found))
    psi, divergence, variation, hellinger = np.mean(ours, axis=0) / np.mean(plain, axis=0)
    assert max(psi, divergence) < 0.14
    assert max(variation, hellinger) < 0.3


@pytest.mark.rate(1e-4)
@noises
def test_a_drift_is_read_without_bias_and_within_its_interval(hidden):
    """Bias under half of a figure's deviation; intervals hold at 95 %, in 300 runs."""
    true, found = exact(AFTER, BEFORE), [one for _, one in read(drifted=True, hidden=hidden)]
    off = np.array([values(f) for f in found]) - true
    stated = np.array([deviations(f) for f in found])
    assert (np.abs(off.mean(axis=0)) < 0.5 * stated.mean(axis=0)).all()
    assert (off.std(axis=0) < 1.3 * stated.mean(axis=0)).all()
    for name, value in zip(DISTANCES, true, strict=True):
        ends = [getattr(f, name) for f in found]
        assert hold([end.low <= value <= end.high for end in ends]), name


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("deviation", [pytest.param(2.0, marks=pytest.mark.slow), 20.0])
@pytest.mark.parametrize("records", [150, 10_000])
def test_the_interval_of_changed_records_holds_for_the_law_and_for_the_records(records, deviation):
    """At 95 %, in 60 runs each: of 60 bins whose records are tilted, or have not moved."""
    domain = Binned(list(map(float, range(1, 60))))
    law = np.append(np.full(60, 1 / 60), 0)
    tilted = law * np.exp(np.linspace(-0.6, 0.6, 61))
    tilted /= tilted.sum()
    plan, rng = plan_of(domain, law), np.random.default_rng(3)
    for drifted in (law, tilted):
        held = {"law": [], "records": []}
        for run in range(60):
            counts = rng.multinomial(records, drifted)
            noised = release(plan, counts, discrete_gaussian(deviation), seed=run)
            found = figures(noised).total_variation
            for name, own in (("law", drifted), ("records", counts / records)):
                truth = exact(own, law)[2]
                held[name].append(found.low - 1e-9 <= truth <= found.high + 1e-9)
        assert hold(held["law"])
        assert hold(held["records"])


@pytest.mark.rate(1e-4)
@pytest.mark.parametrize("tilt", [0.0, 0.8])
def test_the_interval_of_changed_records_holds_for_the_population_of_drawn_clients(tilt):
    """At 95 %, in 60 runs: 60 clients of 50 records, each of a law of its own, effect 5.5."""
    clients, each, concentration, rng = 60, 50, 10, np.random.default_rng(5)
    law = np.append(np.linspace(1, 5, 20), [0, 0])
    law /= law.sum()
    reference = law * np.exp(tilt * np.cos(np.arange(22)))
    reference /= reference.sum()
    plan = plan_of(Labels([str(i) for i in range(20)]), reference)
    effects = DesignEffects(1 + (each - 1) / (concentration + 1), each)
    truth, held = exact(law, reference)[2], []
    for run in range(60):
        laws = rng.dirichlet(np.maximum(concentration * law, 1e-9), clients)
        counts = rng.multinomial(each, laws).sum(axis=0)
        found = figures(release(plan, counts, discrete_gaussian(2.0), run), effects).total_variation
        held.append(found.low - 1e-9 <= truth <= found.high + 1e-9)
    assert hold(held)


@pytest.mark.rate(1e-4)
def test_it_holds_where_clients_differ_in_just_what_changed():
    """At 95 %, in 60 runs: all of a client's values are high or low, as those of the drift are."""
    clients, each, rng, held = 100, 50, np.random.default_rng(5), []
    law = np.append(np.full(30, 1 / 30), [0, 0])
    low, high = (np.where(np.arange(32) < 15, a, b) * law for a, b in ((1.5, 0.5), (0.5, 1.5)))
    reference = np.where(np.arange(32) < 15, 1.3, 0.7) * law
    plan, truth = plan_of(Labels([str(i) for i in range(30)]), reference), 0.15
    between = ((low - law) ** 2).sum()  # trace of a client's covariance
    effects = DesignEffects(1 + (each - 1) * between / (1 - law @ law), each)
    for run in range(60):
        some = rng.binomial(clients, 0.5)
        counts = sum(
            rng.multinomial(n * each, one) for n, one in ((some, low), (clients - some, high))
        )
        found = figures(release(plan, counts, discrete_gaussian(2.0), run), effects).total_variation
        held.append(found.low - 1e-9 <= truth <= found.high + 1e-9)
    assert hold(held)


@pytest.mark.rate(1e-4)
@noises
def test_limits_of_shares_hold(hidden):
    """At 95 %: fewer than the bound would be seen with probability under 1e-6."""
    found = [one for _, one in read(drifted=True, hidden=hidden)]
    for place, share in enumerate((0.06, 0.01, 0.05)):
        held = sum(f.shares[place].low <= share <= f.shares[place].high for f in found)
        assert held >= binom.ppf(1e-6, RUNS, 0.95)
        off = np.array([f.shares[place].value - share for f in found])
        assert off.std() == pytest.approx(
            np.mean([f.shares[place].deviation for f in found]), rel=0.35
        )


def test_records_in_clusters_tell_less():
    counts = release(plan_of(DELAYS, BEFORE), AFTER * 20_000)
    one, four = figures(counts), figures(counts, DesignEffects(4))
    assert deviations(four) / deviations(one) == pytest.approx(2, rel=0.25)
    assert four.shares[2].deviation == pytest.approx(2 * one.shares[2].deviation)
    for figure in ("mean", "wasserstein"):
        wide, narrow = getattr(four.ordered, figure), getattr(one.ordered, figure)
        assert wide.deviation == pytest.approx(2 * narrow.deviation)
    with pytest.raises(ValueError, match="1"):
        figures(counts, DesignEffects(0.5))


@pytest.mark.rate(1e-4)
def test_intervals_hold_of_few_clients_each_alike_in_all_its_records():
    """At 95 %: fewer than the bound would be seen with probability under 1e-6; no end is 0."""
    generator, runs, rank = np.random.default_rng(3), 150, np.arange(20)
    laws = (1 / (rank + 1), np.exp(0.08 * rank) / (rank + 1))
    before, after = (np.append(law / law.sum(), [0, 0]) for law in laws)
    plan = plan_of(Labels([str(i) for i in rank]), before)
    held, true = np.zeros(len(DISTANCES)), exact(after, plan.mass)
    for run in range(runs):
        counts = 50 * generator.multinomial(25, after)
        found = figures(release(plan, counts, discrete_gaussian(1.0), run), DesignEffects(50))
        low, high = np.array([astuple(getattr(found, name))[2:] for name in DISTANCES]).T
        held += (low - 1e-3 <= true) & (true <= high)
    assert (held >= binom.ppf(1e-6, runs, 0.95)).all()


def test_bins_that_share_a_cell_share_its_records_as_the_reference_does():
    domain = Binned(np.arange(400.0).tolist())
    law = 1 / (1 + np.arange(domain.size))
    law[-1] = 0.0
    law /= law.sum()
    plan = plan_of(domain, law, cells=24)
    found = figures(release(plan, np.rint(law * 1e8)))
    assert values(found) == pytest.approx(0, abs=0.01)
    assert found.ordered.mean.value == pytest.approx(found.ordered.reference_mean, rel=1e-3)
    last = next(share for share in found.shares if share.name == ">= 399")
    assert last.low == 0 < last.value == pytest.approx(last.reference, rel=0.01)
    assert last.high > 2 * last.value  # all of its cell's records may be its own


def test_a_pair_of_columns_has_no_order():
    pair = Categories({"port": ["JFK", "LGA"], "late": ["no", "yes"]})
    law = np.zeros(pair.size)
    law[[0, 1, 4, 5]] = 0.25
    found = figures(release(plan_of(pair, law), 1000 * law))
    assert found.ordered is None
    assert [share.name for share in found.shares] == [
        "'other' in port", "'missing' in port", "'other' in late", "'missing' in late"
    ]  # fmt: skip
    assert all(share.value == 0 for share in found.shares)


def test_they_are_the_same_whenever_they_are_asked():
    counts = release(plan_of(DELAYS, BEFORE), AFTER * 1000, GAUSSIAN)
    assert figures(counts) == figures(counts)


@pytest.mark.parametrize(("domain", "law"), [(DELAYS, BEFORE), (PORTS, [0.4, 0.3, 0.2, 0.1])])
def test_json_gives_them_back(domain, law):
    plan = plan_of(domain, law)
    found = figures(release(plan, np.rint(1000 * plan.reference.probabilities), GAUSSIAN))
    text = json.dumps(asdict(found), allow_nan=False)
    assert TypeAdapter(Figures).validate_json(text, strict=True) == found


def test_a_column_of_one_cell_cannot_drift():
    reference = Reference(Labels(["a"]), np.array([0.5, 0.3, 0.2]))
    plan = QueryPlan(reference, np.zeros(3, np.int32), np.ones(1), np.ones(1), np.full(1, HEAD))
    found = figures(release(plan, [10, 0, 0], GAUSSIAN))
    assert (values(found) == 0).all()
    assert [(share.low, share.high) for share in found.shares] == [(0, 1), (0, 1)]


def numbers_in(form):
    if isinstance(form, dict):
        form = list(form.values())
    if isinstance(form, list | tuple):
        return [number for part in form for number in numbers_in(part)]
    return [form] if isinstance(form, float) else []


COUNTS = st.integers(-(10**12), 10**12) | st.integers(-50, 50)


@settings(max_examples=examples(150))
@given(
    edges=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=9, unique=True),
    labels=st.booleans(),
    noise=st.sampled_from([SILENT, GAUSSIAN, LAPLACE]),
    protects=st.sampled_from(["record", WholeClients(1)]),
    records=st.floats(1, 1e9),
    design_effect=st.floats(1, 100),
    data=st.data(),
)
def test_whatever_is_published_figures_are_finite_and_in_range(
    edges, labels, noise, protects, records, design_effect, data
):
    domain = PORTS if labels else Binned(sorted(edges))
    weights = st.lists(st.integers(0, 5), min_size=domain.size, max_size=domain.size)
    masses = data.draw(weights.filter(any))
    plan = plan_of(domain, np.array(masses) / sum(masses))
    blank = release(plan, np.zeros(domain.size), noise, protects=protects)
    counts = data.draw(st.lists(COUNTS, min_size=plan.cells, max_size=plan.cells))
    noisy = NoisyCounts(np.array(counts), records, blank.event, plan, False)
    with np.errstate(all="raise", under="ignore"):
        found = figures(noisy, DesignEffects(design_effect))
    form = json.loads(json.dumps(asdict(found), allow_nan=False))
    assert all(math.isfinite(number) for number in numbers_in(form))
    assert 0 <= found.total_variation.value <= 1 + 1e-9
    assert 0 <= found.hellinger.value <= 1 + 1e-9
    assert -1e-12 <= found.jensen_shannon.value <= math.log(2) + 1e-9
    assert all(0 <= share.low <= share.value <= share.high <= 1 for share in found.shares)
    if found.ordered is not None:
        first, *_, last = domain.edges
        assert 0 <= found.ordered.wasserstein.value <= (last - first) * (1 + 1e-9)
        assert first - 1e-3 <= found.ordered.mean.value <= last + 1e-3
        quantiles = [(q.low, q.value, q.high) for q in found.ordered.quantiles]
        assert all(low <= value <= high for low, value, high in quantiles)
        assert (np.diff(quantiles, axis=0) >= -1e-6).all()


@pytest.mark.rate(1e-4)
def test_a_rare_kind_of_clients_is_no_drift():
    """At 95 %, in 200 cohorts of no drift: limits of distances reach 0."""
    each, clients, rng = 200, 400, np.random.default_rng(8)
    laws, chance = np.array([[0.5, 0.5, 0], [0, 0, 1]]), np.array([0.98, 0.02])
    plan, covered = plan_of(Binned([0, 1]), [*(chance @ laws), 0]), []
    for run in range(200):
        of_kind = rng.multinomial(clients, chance)
        counts = sum(rng.multinomial(each * n, own) for n, own in zip(of_kind, laws, strict=True))
        part = of_kind / clients
        between = part @ (laws**2).sum(axis=1) - ((part @ laws) ** 2).sum()
        effect = 1 + (each - 1) * between / (1 - ((part @ laws) ** 2).sum())
        noisy = release(plan, np.append(counts, 0), LAPLACE, seed=run)
        found = figures(noisy, DesignEffects(effect, each))
        covered.append([getattr(found, name).low <= 1e-9 for name in DISTANCES])
    assert hold(covered)
