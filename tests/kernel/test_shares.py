"""Shares: their sum is the noise that was meant, exactly; they are drawn as tabled; rings fit."""

import math

import numpy as np
import pytest
from scipy import stats

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import TOTAL, NoiseTable, SystemBits, noise_sum, sample
from flwr_kld.trust.calibration import calibrate_shares
from flwr_kld.trust.noise_laws import (
    discrete_gaussian,
    discrete_laplace,
    laplace_share,
)

DRAWS = 2_000_000
FALSE_ALARM = 1e-7


def law(table: NoiseTable, reach: int) -> np.ndarray:
    """P(-reach..reach) in float64, without what was cut or lost."""
    inside = min(reach, table.reach)
    found = np.zeros(2 * reach + 1)
    middle = table.probabilities[table.reach - inside : table.reach + inside + 1]
    found[reach - inside : reach + inside + 1] = middle
    return found


def brute_sum(table: NoiseTable, copies: int, cells: int) -> np.ndarray:
    """The same sum by one float64 Fourier transform over a ring, centred; shape [cells]."""
    ring = np.zeros(cells)
    ring[table.support % cells] = table.probabilities
    return np.roll(np.fft.ifft(np.fft.fft(ring) ** copies).real, cells // 2)


@pytest.mark.parametrize("clients", [1, 2, 7, 200, 10_000])
@pytest.mark.parametrize("scale", [0.17, 2.0, 40.0])
def test_laplace_shares_sum_to_discrete_laplace(clients, scale):
    total = noise_sum(laplace_share(scale, clients), clients)
    whole = discrete_laplace(scale)
    error = abs(law(total, whole.reach) - whole.probabilities)
    assert error.max() < 1e-15
    assert total.tail / TOTAL < 1e-29


@pytest.mark.parametrize("clients", [2, 200])
def test_laplace_share_is_a_difference_of_negative_binomials(clients):
    table = laplace_share(1.5, clients)
    k = np.arange(200)
    one_sided = stats.nbinom.pmf(k, 1 / clients, -math.expm1(-1 / 1.5))
    both = np.convolve(one_sided, one_sided[::-1])[199 - 60 : 199 + 61]
    # scipy knows nothing of the sliver 2**-20 by which the rate is lowered
    assert law(table, 60) == pytest.approx(both, abs=2e-6 / clients)


def test_discrete_gaussians_sum_to_less_than_a_gaussian_below_one_grid_step():
    coarse = noise_sum(discrete_gaussian(math.sqrt(0.17848)), 200)
    fine = noise_sum(discrete_gaussian(3 * math.sqrt(0.17848)), 200)
    assert coarse.variance < 0.62 * 35.7
    assert fine.variance == pytest.approx(9 * 35.7, rel=1e-3)
    whole = discrete_gaussian(3 * math.sqrt(35.696))
    assert abs(law(fine, whole.reach) - whole.probabilities).max() < 1e-6


@pytest.mark.parametrize("copies", [1, 2, 3, 37, 160])
@pytest.mark.parametrize(
    "share",
    [laplace_share(2.0, 160), discrete_gaussian(0.9), discrete_gaussian(0.3)],
)
def test_noise_sum_against_a_fourier_transform(share, copies):
    total = noise_sum(share, copies)
    assert abs(law(total, 500) - brute_sum(share, copies, 1001)).max() < 1e-13
    assert sum(total.weights) + total.tail == TOTAL


def test_noise_sum_is_a_lower_bound_and_says_what_it_lost():
    share = laplace_share(2.0, 3)
    exact = [0] * (6 * share.reach + 1)
    for i, a in enumerate(share.weights):
        for j, b in enumerate(share.weights):
            exact[i + j] += a * b
    reach = noise_sum(share, 2).reach
    middle = 2 * share.reach
    for k in range(-reach, reach + 1):
        true = exact[middle + k]
        assert 0 <= true - noise_sum(share, 2).weights[reach + k] * TOTAL < 2 * TOTAL
    assert noise_sum(share, 2).tail < 4 * share.reach + 2


def test_without_shares_there_is_no_noise():
    with pytest.raises(ValueError, match="copies"):
        noise_sum(laplace_share(2.0, 3), 0)


def fits(observed: np.ndarray, expected: np.ndarray) -> bool:
    """χ² test at a false-alarm rate of 1e-7; rare values are pooled."""
    common = expected >= 20
    seen = np.append(observed[common], observed[~common].sum())
    hoped = np.append(expected[common], expected[~common].sum())
    if hoped[-1] < 5:
        seen, hoped = seen[:-1], hoped[:-1]
    return stats.chisquare(seen, hoped * seen.sum() / hoped.sum()).pvalue > FALSE_ALARM


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize(
    ("law_of", "scale"),
    [
        (lambda s: laplace_share(s, 5), 2.0),
        (lambda s: laplace_share(s, 20), 40.0),
        (discrete_gaussian, 1.3),
    ],
)
def test_law_of_two_million_drawn_shares(law_of, scale):
    """A scale wrong by 10 % is missed with probability < 1e-9 (p-values are around 1e-200)."""
    table = law_of(scale)
    reach = table.reach
    draws = sample(table, DRAWS, SystemBits())
    observed = np.bincount(draws + reach, minlength=2 * reach + 1).astype(float)
    assert fits(observed, DRAWS * table.probabilities)
    assert not fits(observed, DRAWS * law(law_of(0.9 * scale), reach))
    assert not fits(observed, DRAWS * law(law_of(1.1 * scale), reach))


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("mechanism", ["discrete-laplace", "discrete-gaussian"])
def test_calibrated_noise_is_near_the_central_one(epsilon, mechanism):
    event = calibrate_shares(Guarantee(epsilon, 1e-6), n_min=200, mechanism=mechanism)
    variance = event.noise(200).variance / event.grid**2
    known = {
        "discrete-laplace": {0.5: 31.83, 3.0: 0.7394},
        "discrete-gaussian": {0.5: 130.1, 3.0: 4.772},
    }
    assert variance == pytest.approx(known[mechanism][epsilon], rel=0.01)
    if mechanism == "discrete-gaussian":
        assert event.share.variance > 0.99


@pytest.mark.parametrize("law_of", [lambda s: laplace_share(s, 9), discrete_gaussian])
@pytest.mark.parametrize("size", [0.0, -1.0, math.nan, math.inf])
def test_noise_of_no_use_is_refused(law_of, size):
    with pytest.raises(ValueError, match=r"noise|variance|sigma"):
        law_of(size)
