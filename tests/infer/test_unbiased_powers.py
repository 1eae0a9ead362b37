"""Unbiased powers against sums over the exact laws of count and noise."""

import numpy as np
import pytest
from scipy.stats import poisson

from flwr_kld.infer.unbiased_powers import UnbiasedPowers
from flwr_kld.kernel import Guarantee
from flwr_kld.trust.calibration import calibrated_gaussian, calibrated_laplace

NOISES = {
    "Laplace": calibrated_laplace(Guarantee(3.0)).table,
    "Gaussian": calibrated_gaussian(Guarantee(3.0, 1e-6)).table,
}


@pytest.fixture(scope="module", params=NOISES, ids=NOISES.keys())
def noise(request):
    return NOISES[request.param]


def law(noise, mean):
    """Values of a noisy count, and their chances."""
    count = np.arange(int(mean + 40))
    chance = np.convolve(poisson.pmf(count, mean), noise.probabilities)
    return np.arange(len(chance)) - float(noise.reach), chance


@pytest.mark.parametrize(("mean", "expected"), [(0.0, 2.0), (3.0, 2.0), (5.0, 9.0), (4.0, 4.0)])
def test_means_are_powers(noise, mean, expected):
    y, chance = law(noise, mean)
    found = UnbiasedPowers.of(noise).estimates(y, np.full(len(y), expected), 8)
    for k, c in enumerate(found):
        deviation = np.sqrt(chance @ c**2)
        assert chance @ c == pytest.approx((mean - expected) ** k, rel=1e-6, abs=1e-6 * deviation)


@pytest.mark.parametrize("mean", [0.5, 6.0])
def test_covariances(noise, mean):
    y, chance = law(noise, mean)
    powers = UnbiasedPowers.of(noise)
    found = np.stack(powers.estimates(y, np.full(len(y), mean), 6))
    exact = (found * chance) @ found.T
    size = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    stated = powers.covariances(np.array([mean]), 6)
    for k in range(1, 7):
        for j in range(1, 7):
            assert float(stated[k][j][0]) == pytest.approx(exact[k, j], abs=1e-6 * size[k, j])
