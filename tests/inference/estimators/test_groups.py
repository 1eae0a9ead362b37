import numpy as np
import pytest

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.estimators.groups import group_cells
from flwr_kld.inference.estimators.likelihood import Likelihood
from flwr_kld.inference.estimators.mixture import Mixture
from flwr_kld.kernel import Guarantee


@pytest.fixture(scope="module")
def noise():
    return calibrated_laplace(Guarantee(1.0)).table


def test_groups_hold_every_cell_once_and_average_its_count():
    rng = np.random.default_rng(0)
    y = rng.integers(-5, 90, 1000)
    expected = rng.choice([0.5, 3.0, 40.0], 1000)
    groups = group_cells(y, expected, 2.8)
    assert groups.size.sum() == 1000
    assert groups.value @ groups.size == pytest.approx(y.sum())
    assert np.exp(groups.log_expected) == pytest.approx([0.5, 3.0, 40.0])
    assert np.exp(groups.log_expected)[groups.bin_of[groups.of]] == pytest.approx(expected)
    blurred = ~groups.sharp[groups.of]
    assert (groups.value[groups.of][blurred] == y[blurred]).all()
    assert (y[~blurred] >= 20 * 2.8).all()


def test_one_group_of_many_cells_is_many_groups_of_one(noise):
    y = np.repeat(np.array([-2, 0, 1, 5]), 25)
    merged = group_cells(y, np.full(100, 2.0), noise.variance**0.5)
    assert len(merged.size) == 4
    single = type(merged)(
        of=np.arange(100),
        size=np.ones(100),
        value=y.astype(float),
        sharp=np.zeros(100, dtype=bool),
        bin_of=np.zeros(100, dtype=np.int64),
        log_expected=merged.log_expected,
    )
    laws = []
    for groups in (merged, single):
        likelihood = Likelihood(groups, noise, 0.01)
        rows = likelihood.rows(0.1)
        mixture = Mixture(groups, np.full(rows.shape[1], 1 / rows.shape[1]))
        mixture.fit(rows, 20)
        laws.append(mixture.weights)
    assert laws[0] == pytest.approx(laws[1], abs=1e-12)


def test_rare_symbols_may_follow_another_law_than_frequent_ones(noise):
    # Rare symbols are gone, frequent ones have not drifted: one law for both would blend them.
    rng = np.random.default_rng(0)
    expected = np.repeat([20.0, 2000.0], 200)
    y = np.where(expected < 100, 0, rng.poisson(expected))
    y += rng.geometric(0.39, 400) - rng.geometric(0.39, 400)
    groups = group_cells(y, expected, noise.variance**0.5)
    likelihood = Likelihood(groups, noise, 0.01)
    rows = likelihood.rows(0.0)
    mixture = Mixture(groups, np.full(rows.shape[1], 1 / rows.shape[1]))
    mixture.fit(rows, 60)
    low = np.concatenate([[True], likelihood.grid < -2])
    rare, frequent = mixture.weights[:, low].sum(axis=1)
    assert rare > 0.9
    assert frequent < 0.1


def test_likelihood_is_the_convolution_of_law_and_noise(noise):
    groups = group_cells(np.array([-3, 0, 4]), np.full(3, 2.0), noise.variance**0.5)
    likelihood = Likelihood(groups, noise, 0.01)
    u = int(np.argmin(np.abs(likelihood.grid)))
    mean, shape = 2.0 * np.exp(likelihood.grid[u]), 25
    h = np.arange(200)
    steps = np.log((shape + h[:-1]) / (h[:-1] + 1) * mean / (shape + mean))
    law = np.exp(np.concatenate([[0.0], np.cumsum(steps)])) * (shape / (shape + mean)) ** shape
    chance = dict(zip(noise.support.tolist(), noise.probabilities, strict=True))
    direct = [sum(law[k] * chance.get(y - k, 0.0) for k in h) for y in (-3, 0, 4)]
    unseen = [chance[y] for y in (-3, 0, 4)]
    rows = likelihood.rows(0.0)
    assert rows[:, u + 1] / rows[:, 0] == pytest.approx(np.array(direct) / unseen, rel=1e-6)


def test_a_group_of_several_counts_is_as_likely_as_all_of_them_together():
    # The law of the noise has a cusp at 0: the middle count cannot stand for its neighbours.
    noise = calibrated_laplace(Guarantee(0.05)).table
    y = np.arange(-102, 103)
    groups = group_cells(y, np.full(len(y), 2.0), noise.variance**0.5)
    assert groups.step == 5
    likelihood = Likelihood(groups, noise, 0.01)
    rows = likelihood.rows(0.0)
    for u in (20, 40, 50):
        mean, shape = 2.0 * np.exp(likelihood.grid[u]), 25
        h = np.arange(400)
        steps = np.log((shape + h[:-1]) / (h[:-1] + 1) * mean / (shape + mean))
        law = np.exp(np.concatenate([[0.0], np.cumsum(steps)])) * (shape / (shape + mean)) ** shape
        chance = noise.probabilities[y[:, None] - h + noise.reach]
        seen = np.bincount(groups.of, chance @ law)
        unseen = np.bincount(groups.of, chance[:, 0])
        assert rows[:, u + 1] / rows[:, 0] == pytest.approx(seen / unseen, rel=2e-3)


def test_counts_far_above_wide_noise_need_no_window():
    noise = calibrated_laplace(Guarantee(0.05)).table
    groups = group_cells(np.array([10**6]), np.array([1e6]), noise.variance**0.5)
    assert groups.sharp.all()
    likelihood = Likelihood(groups, noise, 0.01)
    assert likelihood.grid[likelihood.rows(0.0)[0, 1:].argmax()] == pytest.approx(0, abs=0.1)
