"""Calibration: known amounts of noise, and refusals before anything is spent."""

import pytest

from flwr_kld.kernel import Guarantee
from flwr_kld.trust.calibration import calibrated_gaussian, calibrated_laplace
from flwr_kld.trust.noise_laws import discrete_gaussian


@pytest.mark.parametrize(
    ("epsilon", "variance"), [(0.05, 3200), (0.5, 31.83), (1, 7.835), (3, 0.7394)]
)
def test_laplace_variances(epsilon, variance):
    table = calibrated_laplace(Guarantee(epsilon)).table
    assert table.variance == pytest.approx(variance, rel=1e-3)


@pytest.mark.parametrize(
    ("epsilon", "variance"), [(0.05, 9597), (0.5, 129.8), (1, 35.72), (3, 4.768), (6, 1.332)]
)
def test_gaussian_variances_are_those_of_the_analytic_mechanism(epsilon, variance):
    """Balle & Wang 2018 give 9600/130/35.7/4.77 at delta 1e-6; at ε = 6 the grid helps."""
    table = calibrated_gaussian(Guarantee(epsilon, 1e-6)).table
    assert table.variance == pytest.approx(variance, rel=1e-3)


def test_gaussian_needs_delta():
    with pytest.raises(ValueError, match="delta"):
        calibrated_gaussian(Guarantee(1.0))


@pytest.mark.parametrize("epsilon", [100.0, 1e-7])
def test_epsilon_that_no_table_serves(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        calibrated_laplace(Guarantee(epsilon))


def test_delta_below_the_accountant_resolution_is_refused_not_rounded():
    with pytest.raises(ValueError, match="table"):
        calibrated_gaussian(Guarantee(1.0, 1e-14))


def test_scales_that_would_round_to_no_noise_at_all_are_refused():
    with pytest.raises(ValueError, match="nobody"):
        discrete_gaussian(0.06)


@pytest.mark.parametrize("calibrate", [calibrated_laplace, calibrated_gaussian])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(1.0, 5e-324), (1.0, 1e-308), (1.0, 1e-39), (5e-324, 1e-6), (1e-300, 1e-6), (1e300, 1e-6)],
)
def test_numbers_at_the_edge_of_floats_are_served_or_refused_at_once(calibrate, epsilon, delta):
    words = ""
    try:
        event = calibrate(Guarantee(epsilon, delta))
    except ValueError as error:
        words = str(error)
    refused = any(cure in words for cure in ("raise", "lower epsilon", "choose an epsilon"))
    assert refused or event.delta_at(epsilon) <= delta
