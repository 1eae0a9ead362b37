"""The study of selection: what is right, what is measured, what it stands beside."""

import numpy as np
import pytest

from flwr_kld.simulations.studies import predictor_select as study


@pytest.mark.parametrize("alpha", [0.1, 0.4])
def test_outside_the_class_one_hypothesis_alone_is_within_the_factor(alpha):
    table, away = study.perturbed(16, alpha), study.AWAY["outside"]
    law = (1 - away) * table[3] + away * table[7]
    over = np.abs(table - law).sum(axis=1) / 2 / (away * alpha)
    assert over[[3, 7]] == pytest.approx([1, 4])
    assert np.delete(over, [3, 7]) == pytest.approx(5)
