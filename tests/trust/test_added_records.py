"""What adding or removing a record costs where ε is that of replacing one, by the noise itself."""

import pytest

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.trust.calibration import least_noise

DELTA = 1e-6


@pytest.mark.parametrize("columns", [1, 3, 5, 11])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_it_costs_half_under_laplace_noise_and_up_to_seven_tenths_under_gaussian(columns, epsilon):
    noise = least_noise(Guarantee(epsilon, DELTA), (1, -1) * columns)
    gaussian = noise.mechanism == "discrete-gaussian"
    assert gaussian or columns < 11

    def delta_at(part: float) -> float:
        return float(hockey_stick(noise.table, (1,) * columns, part * epsilon))

    assert delta_at(0.7) <= DELTA
    assert (delta_at(0.501) <= DELTA) != gaussian
