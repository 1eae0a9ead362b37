"""The paper's plan: iid draws, each distinct symbol asked once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numbered import Numbered
from rows import counted

from examples import examples
from flwr_kld.domain.labels import Labels
from flwr_kld.papers.estimators import MonteCarlo
from flwr_kld.query.plan import HEAD
from flwr_kld.reference import Reference

REFERENCE = Reference.from_counts(Numbered(6), [5, 0, 1, 2, 0, 8])


def draw(reference=REFERENCE, draws=20, seed=0):
    return MonteCarlo(draws).draw(reference, np.random.default_rng(seed))


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=50).filter(any),
    st.integers(1, 80),
    st.integers(0, 2**32),
)
@settings(max_examples=examples(150))
def test_distinct_symbols_are_asked_once_with_their_multiplicity(counts, draws, seed):
    reference = Reference.from_counts(Numbered(len(counts)), counts)
    plan = draw(reference, draws, seed)
    drawn = reference.draw(draws, np.random.default_rng(seed))
    times = np.bincount(drawn, minlength=len(counts))
    asked = times > 0
    assert plan.weight[plan.cell_of[asked]].tolist() == (times[asked] / draws).tolist()
    assert plan.weight.sum() == pytest.approx(1)
    assert (plan.symbols_in[plan.weight > 0] == 1).all()
    assert set(plan.cell_of) == set(range(plan.cells))
    possible = np.array(counts) > 0
    assert plan.cells == asked.sum() + (asked < possible).any() + (not possible.all())
    assert (plan.outside[plan.cell_of] == ~possible).all()
    assert plan.draws == draws
    assert (plan.inclusion == 1).all()
    assert (plan.stratum == HEAD).all()


def test_each_way_to_be_outside_has_its_own_cell():
    plan = draw(Reference.from_counts(Labels(["a", "b", "c"]), [1, 0, 2]))
    assert len(set(plan.cell_of)) == plan.cells == 5
    assert plan.outside[plan.cell_of].tolist() == [False, True, False, True, True]


def test_each_record_is_counted_once():
    plan, symbols = draw(), np.array([0, 0, 1, 4, 5, 2, 3])
    assert counted(plan, symbols)._values.sum() == 7


def test_weights_are_unbiased():
    """Within 6 standard errors: P < 2e-9."""
    f, repeats = np.array([3.0, -7, 2, 9, 4, -1]), 3000
    sums = []
    for seed in range(repeats):
        plan = draw(seed=seed)
        score = np.zeros(plan.cells)
        single = plan.symbols_in[plan.cell_of] == 1
        score[plan.cell_of[single]] = f[single]
        sums.append(plan.weight @ score)
    wanted = REFERENCE.probabilities @ f
    assert abs(np.mean(sums) - wanted) <= 6 * np.std(sums) / repeats**0.5
    assert np.std(sums) / repeats**0.5 < 0.05


@pytest.mark.parametrize("draws", [0, -3])
def test_no_draws(draws):
    with pytest.raises(ValueError, match=f"draws must be a whole number .*, got {draws}"):
        MonteCarlo(draws)
