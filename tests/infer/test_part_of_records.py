"""The least divergence that is left if a part of the records were others."""

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from scipy.stats import beta, binom

from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.part_of_records import (
    Draw,
    least_if_missed,
    least_if_moved,
    least_if_overdrawn,
    least_if_underdrawn,
    missed_part,
)

THETA = 0.01


def laws(seed, cells=5):
    rng = np.random.default_rng(seed)
    reference, law = rng.dirichlet(np.ones(cells)), rng.dirichlet(np.ones(cells))
    if seed % 2:  # records outside the reference
        reference = np.append(reference[:-1] / reference[:-1].sum(), 0.0)
    return reference, law


def least(reference, law, lowest, highest):
    """By a general optimiser: the least D_θ of laws within bounds."""
    found = minimize(
        lambda q: skewed_divergence(reference, np.maximum(q, 0), THETA),
        np.clip(law, lowest, highest), method="SLSQP",
        bounds=list(zip(lowest, highest, strict=True)),
        constraints=LinearConstraint(np.ones_like(law), 1.0, 1.0),
        options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    return found.fun


@pytest.mark.parametrize("part", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(3))
def test_a_missed_part_may_follow_any_law(seed, part):
    reference, law = laws(seed)
    lowest = (1 - part) * law
    expected = least(reference, law, lowest, lowest + part)
    assert least_if_missed(reference, law, part, theta=THETA) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("part", [0.0, 0.05, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_no_law_that_lies_so_near_has_less(seed, part):
    """Of many laws within this total variation none has less, and some have hardly more."""
    reference, law = laws(seed)
    found = least_if_moved(reference, law, part, theta=THETA)
    rng, best = np.random.default_rng(seed), np.inf
    for _ in range(4000):
        other = rng.dirichlet(np.ones(len(law)) * 0.5)
        taken = rng.dirichlet(np.ones(len(law)) * 0.5) * part
        left = law - np.minimum(taken, law)
        near = left + (1 - left.sum()) * other
        best = min(best, skewed_divergence(reference, near, THETA))
    assert found <= best + 1e-12
    assert found <= skewed_divergence(reference, law, THETA) + 1e-12


def test_the_part_that_is_missed_is_missed_so_rarely():
    for clients in (1, 40, 400):
        assert (1 - missed_part(clients, 1e-4)) ** clients == pytest.approx(1e-4)


def test_what_is_enough_to_restore_the_reference_leaves_nothing():
    reference, law = np.array([0.5, 0.5]), np.array([0.6, 0.4])
    assert least_if_moved(reference, law, 0.1, theta=THETA) == pytest.approx(0.0, abs=1e-12)
    assert least_if_moved(reference, law, 0.05, theta=THETA) > 0
    assert least_if_missed(reference, law, 0.2, theta=THETA) == pytest.approx(
        skewed_divergence(reference, np.array([0.5, 0.5]), THETA), abs=1e-3
    )


@pytest.mark.parametrize("clients", [40, 100, 400])
@pytest.mark.parametrize("part", [0.02, 0.05, 0.2, 0.5])
def test_a_kind_that_is_drawn_too_often_is_no_drift_of_its_population(clients, part):
    """As often as it may just be; its own label alone tells it from the other clients."""
    error, kind, others = 1e-4, np.eye(11)[10], np.append(np.full(10, 0.1), 0.0)
    reference = np.append(np.full(10, 0.0999), 0.001)
    drawn = (binom.isf(error, clients, part) - 1) / clients
    law = drawn * kind + (1 - drawn) * others
    apart = drawn * (1 - drawn) * float(((kind - others) ** 2).sum())
    population = part * kind + (1 - part) * others
    found = least_if_overdrawn(reference, law, Draw(clients, error, apart), theta=THETA)
    assert found <= skewed_divergence(reference, population, THETA) + 1e-9
    assert found > 0.5 * skewed_divergence(reference, population, THETA) - 0.01
    alike = least_if_overdrawn(reference, law, Draw(clients, error, 0.0), theta=THETA)
    assert alike == skewed_divergence(reference, law, THETA)


@pytest.mark.parametrize(("part", "each"), [(0.01, 10.0), (0.003, 20.0), (0.05, 3.0), (0.2, 0.2)])
@pytest.mark.parametrize("clients", [100, 400])
def test_a_kind_of_larger_clients_is_drawn_too_often_more_easily(clients, part, each):
    """So many of a kind are drawn as may just be; each has so many times the records of another."""
    error, kind, others = 1e-4, np.eye(11)[10], np.append(np.full(10, 0.1), 0.0)
    most = int(binom.isf(error, clients, part)) - 1
    sizes = np.where(np.arange(clients) < most, each, 1.0)
    held, usual = most * each / sizes.sum(), part * each / (part * each + 1 - part)
    assert held < 0.5
    law, population = (x * kind + (1 - x) * others for x in (held, usual))
    reference = np.append(np.full(10, 0.0999), 0.001)
    sharing = {"even": sizes.mean() ** 2 / (sizes**2).mean(), "largest": sizes.max() / sizes.sum()}
    apart = held * (1 - held) * float(((kind - others) ** 2).sum())
    found = least_if_overdrawn(reference, law, Draw(clients, error, apart, **sharing), theta=THETA)
    assert found <= skewed_divergence(reference, population, THETA) + 1e-9
    assert found > 0.4 * skewed_divergence(reference, population, THETA) - 0.02


@pytest.mark.parametrize("each", [1.0, 10.0, 0.3])
@pytest.mark.parametrize("clients", [40, 100, 400])
@pytest.mark.parametrize("part", [0.02, 0.05, 0.2])
def test_a_label_that_is_drawn_too_rarely_is_no_drift_of_its_population(clients, part, each):
    """As rarely as may just be; its clients have so many times the records of another."""
    error, kind, others = 1e-4, np.eye(11)[10], np.append(np.full(10, 0.1), 0.0)
    fewest = int(binom.ppf(error, clients, part)) + 1
    sizes = np.where(np.arange(clients) < fewest, each, 1.0)
    held, usual = fewest * each / sizes.sum(), part * each / (part * each + 1 - part)
    law, population = (x * kind + (1 - x) * others for x in (held, usual))
    reference = 0.9 * others + 0.1 * kind if usual < 0.1 else 0.5 * others + 0.5 * kind
    sharing = {"even": sizes.mean() ** 2 / (sizes**2).mean(), "largest": sizes.max() / sizes.sum()}
    apart = held * (1 - held) * float(((kind - others) ** 2).sum())
    found = least_if_underdrawn(reference, law, Draw(clients, error, apart, **sharing), theta=THETA)
    assert found <= skewed_divergence(reference, population, THETA) + 1e-9
    alike = least_if_underdrawn(reference, law, Draw(clients, error, 0.0), theta=THETA)
    assert found <= alike <= skewed_divergence(reference, law, THETA)


@pytest.mark.parametrize("seed", range(6))
def test_a_raised_label_leaves_no_less_than_the_bound(seed):
    """The bound is that of the best cell, and the tangent costs little of it."""
    reference, law = laws(seed)
    clients, error = 200, 1e-4
    found = least_if_underdrawn(reference, law, Draw(clients, error, 1.0), theta=THETA)
    best = skewed_divergence(reference, law, THETA)
    for cell in np.flatnonzero(reference):
        whole = law[cell] * clients  # of whom all have this label only
        for p in np.linspace(law[cell], beta.isf(error, whole + 1, clients - whole), 50):
            raised = law * (1 - p) / (1 - law[cell])
            raised[cell] = p
            best = min(best, skewed_divergence(reference, raised, THETA))
    assert found <= best + 1e-9
    assert found > 0.8 * best - 0.02
