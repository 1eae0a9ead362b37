import numpy as np
import pytest
from scipy.stats import poisson

from flwr_kld.infer.estimators.design_effect import INDEPENDENT
from flwr_kld.infer.estimators.free_law import GRID
from flwr_kld.infer.estimators.groups import group_cells
from flwr_kld.infer.estimators.ratio_cells import CountLikelihood
from flwr_kld.infer.estimators.score import in_blocks, score
from flwr_kld.kernel import Guarantee
from flwr_kld.trust.calibration import calibrated_laplace


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


def likelihood(groups, noise):
    none = np.zeros(len(groups.log_expected))
    found = CountLikelihood(groups, noise, none, INDEPENDENT, 0.01)
    each_ratio = np.broadcast_to(np.eye(len(GRID)), (len(none), len(GRID), len(GRID)))
    return found.rows, found.counted(each_ratio)


def at(u):
    return int(np.argmin(np.abs(GRID - u)))


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
    for together, apart in zip(likelihood(merged, noise), likelihood(single, noise), strict=True):
        assert together[..., merged.of, :] == pytest.approx(apart, rel=1e-12)


def test_likelihood_is_the_convolution_of_law_and_noise(noise):
    y, h = np.array([-3, 0, 4]), np.arange(200)
    groups = group_cells(y, np.full(3, 2.0), noise.variance**0.5)
    rows, counted = likelihood(groups, noise)
    chance = noise.probabilities[y[:, None] - h + noise.reach]
    law = poisson.pmf(h, 2.0 * np.exp(GRID[at(0.3)]))
    direct, unseen = chance @ law, chance[:, 0]
    assert rows[:, at(0.3)] / rows[:, 0] == pytest.approx(direct / unseen, rel=1e-6)
    f = score(h / 2.0, 0.01)
    for own, number in zip(counted, (f, h, f * h, f**2, h**2), strict=True):
        averaged = chance @ (number * law) / direct
        assert own[:, at(0.3)] / rows[:, at(0.3)] == pytest.approx(averaged, rel=1e-6)


def test_a_group_of_several_counts_is_as_likely_as_all_of_them_together():
    # The law of the noise has a cusp at 0: the middle count cannot stand for its neighbours.
    noise = calibrated_laplace(Guarantee(0.05)).table
    y, h = np.arange(-102, 103), np.arange(400)
    groups = group_cells(y, np.full(len(y), 2.0), noise.variance**0.5)
    assert groups.step == 5
    rows, _ = likelihood(groups, noise)
    chance = noise.probabilities[y[:, None] - h + noise.reach]
    unseen = np.bincount(groups.of, chance[:, 0])
    for u in (at(-1), at(0), at(3)):
        seen = np.bincount(groups.of, chance @ poisson.pmf(h, 2.0 * np.exp(GRID[u])))
        assert rows[:, u] / rows[:, 0] == pytest.approx(seen / unseen, rel=2e-3)


def test_counts_far_above_wide_noise_need_no_window():
    noise = calibrated_laplace(Guarantee(0.05)).table
    groups = group_cells(np.array([10**6]), np.array([1e6]), noise.variance**0.5)
    assert groups.sharp.all()
    assert GRID[likelihood(groups, noise)[0][0].argmax()] == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("numbers", [1, 2**19, 2**30])
def test_no_block_of_rows_is_empty(numbers):
    rows = np.arange(7)
    blocks = in_blocks(rows, numbers)
    assert all(map(len, blocks))
    np.testing.assert_array_equal(np.concatenate(blocks), rows)
