"""The integral paper's contender keeps one promise well and the other not at all."""

import numpy as np
import pytest

from flwr_kld.simulations.studies.integral_domains import mixture, ring
from flwr_kld.simulations.studies.papers.bernstein import bernstein


@pytest.mark.rate(1e-5)
def test_it_learns_at_epsilon_for_a_record_and_nothing_at_epsilon_for_everybody():
    domain = mixture(0)
    assert domain.on_the_line
    assert not ring(0).on_the_line
    histogram = domain.base.histogram(domain.records).astype(float)
    start = domain.kl(domain.base.mass)
    drops, rng = [], np.random.default_rng(0)
    for everybody in (False, True):
        found = []
        for _ in range(80):  # at so little for everybody the divergence is chance: +- .2 in each
            density = bernstein(histogram, 1.0, domain.kl, rng, everybody=everybody)
            assert density.sum() == pytest.approx(1)
            assert (density > 0).all()
            found.append(start - domain.kl(density))
        drops.append(np.mean(found))
    assert drops[0] > 0.6 > 0.1 > drops[1]
