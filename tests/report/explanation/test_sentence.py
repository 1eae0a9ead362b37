"""What moved: the right side, the right cut, the right labels, and nothing by chance."""

import numpy as np
import pytest
from chance import most
from infer.figures.columns import (
    AFTER,
    BEFORE,
    DELAYS,
    GAUSSIAN,
    LAPLACE,
    PORTS,
    plan_of,
    release,
    releases,
)
from scipy.stats import binom

from flwr_kld import Binned, Categories, Reference
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.estimators.design_effect import DesignEffects
from flwr_kld.infer.figures.figures import figures
from flwr_kld.kernel.promise import WholeClients
from flwr_kld.report.explanation import moves

N = 1_000_000
FEW = np.array([0.4, 0.3, 0.2, 0.1, 0.0, 0.0])


def said(domain, before, after, *, records=N, cells=1000, **options):
    counts = np.rint(np.asarray(after) * records)
    found = moves(release(plan_of(domain, before, cells), counts), **options)
    return "; ".join(f"{move} ({move.interval})" for move in found)


def test_numbers_are_cut_where_most_changed():
    later = BEFORE.copy()
    later[[1, 4]] += -0.07, 0.07
    assert said(DELAYS, BEFORE, later) == "15 and over: 20 % → 27 % (27–27 %)"
    assert said(DELAYS, later, BEFORE) == "below 15: 71 % → 78 % (78–78 %)"


def test_numbers_without_a_neighbour_in_the_reference_are_said_whichever_side_they_are_on():
    """Cells for 1 to 4; below, above and between are one cell, which no cut divides."""
    few = Binned([1.0, 2.0, 3.0, 4.0])
    before, after = [0, 0.5, 0.3, 0.2, 0, 0], [0, 0.3, 0.3, 0.2, 0.2, 0]
    assert "< 1 or >= 4: 0 % → 20 % (20–20 %)" in said(few, before, after)
    gaps = Binned([1.0, 2.0, 3.0, 4.0, 5.0])
    before, after = [0, 0.5, 0, 0.5, 0, 0, 0], [0, 0.4, 0, 0.4, 0, 0.2, 0]
    assert "one of 4 symbols, such as < 1 or >= 5: 0 % → 20 %" in said(gaps, before, after)


def test_small_changes_have_decimals():
    higher = BEFORE.copy()
    higher[[0, 6]] += -0.004, 0.004
    assert said(DELAYS, BEFORE, higher) == "240 and over: 1.00 % → 1.40 % (1.36–1.44 %)"


def test_what_is_missing_is_said():
    missing = BEFORE * 0.9 / 0.98
    missing[-1] = 0.1
    assert said(DELAYS, BEFORE, missing) == "missing: 2 % → 10 % (10–10 %)"
    assert said(DELAYS, missing, BEFORE) == "missing: 10 % → 2 % (2–2 %)"


def test_what_is_missing_moves_no_number():
    """Every bin gains from what is no longer missing; only one gains beyond that."""
    before = np.append(BEFORE[:-1] * 0.9 / 0.98, 0.1)
    after = BEFORE.copy()
    after[[2, 5]] += -0.1, 0.1
    assert said(DELAYS, before, after) == "60 and over: 7 % → 18 % (18–18 %)"


def test_two_labels_are_named():
    assert said(PORTS, FEW, [0.3, 0.3, 0.2, 0.13, 0.07, 0]) == (
        "JFK: 40 % → 30 % (30–30 %); other: 0 % → 7 % (7–7 %)"
    )
    assert not said(PORTS, FEW, [0.4, 0.3, 0.2, 0.1, 0, 0])


def test_pairs_are_named_as_combinations():
    pair = Categories({"age": Binned([30.0]), "job": ["nurse", "cook"]})
    before, after = np.zeros(pair.size), np.zeros(pair.size)
    before[[0, 1, 4, 5]] = 0.25
    after[[0, 1, 4, 5]] = 0.25, 0.25, 0.31, 0.19
    named = said(pair, before, after, records=100 * N)
    assert named.startswith("age=>= 30, job=nurse: 25 % → 31 % (31–31 %); age=>= 30, job=cook: ")


def test_labels_that_are_counted_together():
    many = Categories({"a": list(range(40)), "b": list(range(10))})
    before = np.zeros(many.size)
    before[: 40 * 12] = 1 / (1.0 + np.arange(40 * 12)) ** 1.2
    before /= before.sum()
    after = before.copy()
    after[200:400] *= 5
    assert " rare symbols: " in said(many, before, after / after.sum(), records=1e9, cells=24)


def test_cuts_within_a_cell_are_not_offered():
    domain = Binned(np.arange(200.0).tolist())
    before = np.append(1 / (1.0 + np.arange(domain.size - 1)), 0)
    before /= before.sum()
    after = before.copy()
    after[0] *= 2
    told = said(domain, before, after / after.sum(), cells=24)
    assert told.startswith("below 0: ")


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("noise", [GAUSSIAN, LAPLACE], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("protects", ["record", WholeClients(1)])
@pytest.mark.parametrize(("domain", "law"), [(DELAYS, BEFORE), (PORTS, FEW)])
def test_chance_is_rarely_taken_for_movement(domain, law, noise, protects):
    """At level 0.8; a rate of 0.2 gives more than the bound with probability under 1e-6."""
    runs, plan = 200, plan_of(domain, law)
    told = releases(plan, law, 1500, runs, noise, protects=protects)
    wrong = sum(bool(moves(counts, level=0.8)) for counts in told)
    assert wrong <= binom.isf(1e-6, runs, 0.2)


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize("noise", [None, LAPLACE], ids=["public", "counted with noise"])
@pytest.mark.parametrize(("domain", "law"), [(DELAYS, BEFORE), (PORTS, FEW)])
def test_chance_in_the_reference_is_rarely_taken_for_movement(domain, law, noise):
    """At level 0.8, of references of 900 rows and 20,000 records of the clients."""
    rng, runs, wrong, apart = np.random.default_rng(3), 200, 0, 0
    for run in range(runs):
        counts = rng.multinomial(900, law)
        deviation = 0.0
        if noise is not None:
            drawn = rng.choice(noise.support, len(law), p=noise.probabilities)
            counts, deviation = np.maximum(counts + drawn * (law > 0), 0), noise.variance**0.5
        reference = Reference(domain, counts / counts.sum(), 900.0, deviation)
        plan = Partition(1000).draw(reference, rng)
        told = release(plan, rng.multinomial(20_000, law), GAUSSIAN, seed=run)
        wrong += bool(moves(told, level=0.8))
        apart += figures(told).total_variation.low > 0
    assert wrong <= binom.isf(1e-6, runs, 0.2)
    assert apart <= binom.isf(1e-6, runs, 0.05)


def test_a_drift_stands_out_of_the_chance_in_a_reference():
    few = Reference(DELAYS, BEFORE, 900.0)
    plan = Partition(1000).draw(few, np.random.default_rng(0))
    (found,) = moves(release(plan, AFTER * N))
    exact = moves(release(plan_of(DELAYS, BEFORE), AFTER * N))[0]
    assert (found.name, found.clients) == (exact.name, exact.clients)
    assert 0.02 < found.least < exact.least - 0.02


def test_all_records_are_no_more_than_all_of_them():
    """Of fractions that add up to more than 1 by rounding, all lie above the lowest edge."""
    domain = Binned([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    counts = [0, 16433, 6983, 3105, 971, 221, 39, 9, 3, 1, 0]
    law = np.array(counts) / sum(counts)
    assert not said(domain, law, law, records=sum(counts))


def test_clusters_are_allowed_for():
    plan, records = plan_of(DELAYS, BEFORE), 20 * np.random.default_rng(0).multinomial(60, BEFORE)
    assert not moves(release(plan, records), effects=DesignEffects(20))
    drift = release(plan, AFTER * N)
    assert moves(drift)[0].interval == "48–48 %"
    assert moves(drift, effects=DesignEffects(20))[0].interval == "47–49 %"


@pytest.mark.rate(1e-5)
@pytest.mark.parametrize(
    ("domain", "kind", "law"),
    [
        pytest.param(PORTS, 4, FEW, id="labels"),
        pytest.param(DELAYS, 6, np.array([0.2, 0.2, 0.2, 0.2, 0.15, 0.05, 0, 0]), id="numbers"),
    ],
)
def test_a_rare_kind_of_clients_is_no_drift(domain, kind, law):
    """One client in 100 has records of one kind only, which nobody else has; 100 are drawn."""
    rng, each, runs, wrong = np.random.default_rng(5), 200, 60, {False: 0, True: 0}
    rare = 0.01
    expected = (1 - rare) * law
    expected[kind] += rare
    between = rare * (1 - rare) * (law @ law + 1)  # trace of a client's covariance
    average = 1 + (each - 1) * between / (1 - expected @ expected)
    plan = plan_of(domain, expected)
    for run in range(runs):
        few = rng.binomial(100, rare)
        counts = rng.multinomial((100 - few) * each, law)
        counts[kind] += few * each
        drawn = release(plan, counts, LAPLACE, seed=run)
        for bound in wrong:
            effects = DesignEffects(average, each if bound else 1.0)
            wrong[bound] += bool(moves(drawn, effects=effects))
    assert wrong[True] <= most(runs, 0.05)
    assert wrong[False] > 0.3 * runs  # by the average over cells


def test_a_level_must_be_one():
    counts = release(plan_of(DELAYS, BEFORE), BEFORE * N)
    with pytest.raises(ValueError, match="level"):
        moves(counts, level=1.0)
