"""Towards which candidates a check's counts have moved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import Numbered
from rows import counted

from examples import examples
from flwr_kld import Labels, Reference
from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SeededBits
from flwr_kld.kernel.vector import ClearSum
from flwr_kld.query.noisy import noisy
from flwr_kld.query.partition import Partition
from flwr_kld.report.explanation import REFERENCE, fit_candidates

LABELS = Numbered(50)
RNG = np.random.default_rng(0)
USUAL, SUMMER, STRIKE = (
    Reference.from_probabilities(LABELS, RNG.dirichlet(np.full(50, 2.0))) for _ in range(3)
)
CANDIDATES = {"summer": SUMMER, "strike": STRIKE}
PLAN = Partition(64).draw(USUAL, RNG)


def counts(proportions, records, seed):
    laws = np.stack([law.probabilities for law in (USUAL, SUMMER, STRIKE)])
    symbols = np.random.default_rng(seed).choice(50, records, p=np.array(proportions) @ laws)
    clear = ClearSum(PLAN.layout, counted(PLAN, symbols))
    event = calibrated_laplace(Guarantee(1.0))
    return noisy(clear.release(event, SeededBits(seed)), PLAN)


@pytest.mark.parametrize(
    "truth", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0), (0, 0.5, 0.5), (0.6, 0.1, 0.3)]
)
def test_proportions_are_found(truth):
    """Standard deviation of a proportion: 0.0085 at 20,000 records of these laws."""
    found = fit_candidates(counts(truth, 20_000, 1), CANDIDATES)
    assert list(found) == [REFERENCE, "summer", "strike"]
    assert np.abs(np.array(list(found.values())) - truth).max() < 0.08


@settings(max_examples=examples(25))
@given(st.integers(1, 300), st.integers(0, 2**32))
def test_they_are_proportions_whatever_the_noise(records, seed):
    found = fit_candidates(counts((1, 0, 0), records, seed), CANDIDATES)
    assert min(found.values()) >= 0
    assert sum(found.values()) == pytest.approx(1)


def test_what_no_candidates_can_be():
    released = counts((1, 0, 0), 10, 4)
    for none in ({}, {REFERENCE: SUMMER}):
        with pytest.raises(ValueError, match="at least one"):
            fit_candidates(released, none)
    other = Reference.from_probabilities(Labels(["a", "b"]), [0.5, 0.5])
    with pytest.raises(ValueError, match="'other' is over another domain"):
        fit_candidates(released, {"other": other})
