"""What is remembered of recent checks: a lasting drift shows in all of them, and no other does."""

from dataclasses import replace

import numpy as np
import pytest

from flwr_kld.inference.estimators.design_effect import Spread
from flwr_kld.inference.estimators.posterior_counts import expected_shares
from flwr_kld.inference.recent_checks import RecentChecks

NOTHING = Spread(1.0, 0.0)
RECORDS, EPSILON = 5000, 0.2


@pytest.fixture(scope="module")
def setting(plan_for, publish, spread, zipf):
    """Checks of a law: fresh cells and counts each, of 200 symbols in 64 cells."""
    pi = zipf(200)
    drifted = spread(pi, 0.4)
    generator = np.random.default_rng(0)

    def check(seed, *, drift, cells=64):
        plan = plan_for(pi, cells=cells, seed=seed)
        law = np.bincount(plan.cell_of, drifted if drift else pi, plan.cells)
        counts = generator.multinomial(RECORDS, law / law.sum())
        return publish(plan, counts, epsilon=EPSILON, seed=seed), law / law.sum()

    return check


def miss(shares, law):
    """Weighted mean square of the error in r."""
    return float(((shares - law) ** 2 / np.maximum(law, 1e-9)).sum())


def remembered(setting, past):
    recent = RecentChecks()
    for seed, drift in enumerate(past):
        recent = recent.with_check(setting(seed, drift=drift)[0], NOTHING)
    return recent


def test_without_memory_it_is_what_one_check_shows(setting):
    noisy, _ = setting(99, drift=True)
    assert RecentChecks().shares(noisy, theta=0.01) == pytest.approx(
        expected_shares(noisy, theta=0.01)
    )


@pytest.mark.parametrize("past", [[True] * 8, [False] * 10 + [True] * 6])
def test_a_lasting_drift_is_seen_better_with_the_checks_since_it_began(setting, past):
    recent, alone, together = remembered(setting, past), 0.0, 0.0
    for seed in range(100, 110):
        noisy, law = setting(seed, drift=True)
        alone += miss(expected_shares(noisy, theta=0.01), law)
        together += miss(recent.shares(noisy, theta=0.01), law)
    assert together < 0.6 * alone


def test_the_first_check_of_a_drift_is_not_smoothed_away(setting):
    recent, alone, together = remembered(setting, [False] * 16), 0.0, 0.0
    for seed in range(100, 120):
        noisy, law = setting(seed, drift=True)
        alone += miss(expected_shares(noisy, theta=0.01), law)
        together += miss(recent.shares(noisy, theta=0.01), law)
    assert together < 1.2 * alone


def test_shares_are_those_of_a_law_whatever_was_asked_before(setting):
    """Few, many and other cells; cells outside keep their own counts."""
    recent = RecentChecks()
    for seed, cells in enumerate((16, 200, 32)):
        noisy, _ = setting(seed, drift=True, cells=cells)
        recent = recent.with_check(noisy, NOTHING)
        shares = recent.shares(setting(50 + seed, drift=False, cells=24)[0], theta=0.01)
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1)


def test_what_is_remembered_is_bounded_and_read_back_exactly(setting):
    recent = remembered(setting, [False] * 20)
    assert len(recent.checks) == 16
    assert RecentChecks.from_json(recent.to_json()) == recent
    assert len(recent.to_json()) < 20_000
    for wrong in ("{}", recent.to_json().replace('"schema":1', '"schema":2'), "[" * 99):
        with pytest.raises(ValueError, match="recent checks"):
            RecentChecks.from_json(wrong)


def test_checks_that_asked_for_nothing_in_common_are_no_help_and_no_harm(plan_for, publish):
    """Symbols too rare to say anything, too: 1e-300 of the mass is not divided by."""
    masses = (np.append(np.full(16, 1 / 16), 1e-300), np.append(1e-300, np.full(16, 1 / 16)))
    recent = RecentChecks()
    for mass in (*masses, *masses):
        plan = plan_for(mass, cells=17)
        recent = recent.with_check(publish(plan, np.arange(plan.cells)), NOTHING)
    for mass in masses:
        plan = plan_for(mass, cells=17)
        shares = recent.shares(publish(plan, np.arange(plan.cells)), theta=0.01)
        assert np.isfinite(shares).all()
        assert shares.sum() == pytest.approx(1)
    other = RecentChecks(
        checks=tuple(replace(c, symbols=(99,), values=(1,)) for c in recent.checks)
    )
    noisy = publish(plan, np.arange(plan.cells))
    assert other.shares(noisy, theta=0.01) == pytest.approx(
        expected_shares(noisy, theta=0.01), abs=0.1
    )
