"""From records to laws: what is gained, and what is refused before anything is spent."""

import numpy as np
import pytest
from integral.laws import box_weights, finite_base, kl
from scipy.stats import norm

from flwr_kld import BlockPatterns, Categories, Labels, Reference
from flwr_kld.integral import FiniteBase, GaussianCells, Mollifier, mbde, mollify, project
from flwr_kld.integral.boosting import tilted
from flwr_kld.integral.fit import boost_freely, cooled, mbde_boosted
from flwr_kld.kernel.law import TOTAL, SeededBits


def one_dimension(cells=512):
    """The paper's mixture of three Gaussians, on cells of equal mass."""
    grid = GaussianCells(1, cells)
    edges = norm.ppf(np.linspace(0, 1, cells + 1))
    parts = ((0.3, 0.01), (0.5, 0.1), (0.7, 0.1))
    truth = sum(np.diff(norm.cdf(edges, m, v**0.5)) for m, v in parts) / 3
    return grid.base, truth / truth.sum()


@pytest.mark.parametrize("box", [Mollifier.symmetric(1.0), Mollifier.asymmetric(2.0, 0.3)])
def test_mollify_comes_within_five_percent_of_the_exact_optimum(box):
    base, truth = one_dimension()
    records = np.random.default_rng(1).choice(base.size, 5000, p=truth)
    law = mollify(records, base, box)
    density = np.array([w / TOTAL for w in box_weights(law)])
    start = kl(truth, base.mass)
    best = start - kl(truth, project(truth, base, box))
    gained = start - kl(truth, density)
    assert 0.95 * best < gained <= best


def test_algorithm_1_gains_what_its_steps_allow():
    base, truth = one_dimension()
    records = np.random.default_rng(1).choice(base.size, 5000, p=truth)
    fitted = mbde_boosted(records, base, 1.0, rounds=3)
    gained = kl(truth, base.mass) - kl(truth, tilted(base.mass, fitted))
    assert gained == pytest.approx(0.254, abs=0.01)  # of .453: the paper's figure on this domain


def test_held_out_records_that_like_nothing_leave_the_base():
    base, box = finite_base([0.5, 0.3, 0.2]), Mollifier.symmetric(1.0)
    f = np.array([3.0, -3.0, -3.0])
    assert (cooled(f, base, box, np.array([0, 5, 5])) == base.mass).all()
    warm = cooled(f, base, box, np.array([9, 1, 0]))
    assert warm[0] == pytest.approx(1 - 0.5 * box.floor)  # the others are at the floor
    mild = cooled(f, base, Mollifier.symmetric(8.0), np.array([6, 3, 2]))
    assert 0.5 < mild[0] < 0.7  # the temperature is chosen, not the extreme


def test_noise_for_features_is_cooled_away():
    """Records of the base itself: a learner that finds something there must not be believed."""
    base = finite_base(np.ones(400))
    records = np.random.default_rng(0).integers(400, size=300)
    log_ratio, held = boost_freely(records, base, rounds=40, bits=SeededBits(1))
    density = cooled(log_ratio, base, Mollifier.symmetric(5.0), held)
    assert kl(base.mass, density) < 0.05


def test_all_mass_on_one_symbol_is_a_member_like_any_other():
    base, box = finite_base(np.ones(10)), Mollifier.symmetric(1.0)
    law = mollify(np.full(100, 3), base, box)
    share = box_weights(law)[3] / TOTAL
    assert share == pytest.approx(box.ceiling / 10, rel=1e-3)


@pytest.mark.parametrize("records", [[], [1], np.array([], dtype=float)])
def test_fewer_than_two_records_are_refused(records):
    base = finite_base([1, 1])
    with pytest.raises(ValueError, match="two"):
        mbde(records, base, 1.0)
    with pytest.raises(ValueError, match="two"):
        mollify(records, base, Mollifier.symmetric(1.0))


@pytest.mark.parametrize(
    "records", [[0, 5, 77], [0, -1], [0.5, 1.0], [[0, 1]], ["a", "b"], [np.nan, 1.0]]
)
def test_records_that_are_no_symbols_are_refused_without_being_shown(records):
    with pytest.raises(ValueError, match=r"symbol") as caught:
        mollify(records, finite_base([1, 1, 1]), Mollifier.symmetric(1.0))
    assert "77" not in str(caught.value)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([[0.0, 1.0], [np.nan, 2.0]], "finite"),
        ([[0.0, 1.0], [np.inf, 2.0]], "finite"),
        ([[0.0], [1.0]], r"shape \[m, 2\]"),
        ([0.0, 1.0], r"shape \[m, 2\]"),
        ([["a", "b"]], "numbers"),
        ([[0.0, 10**400], [1.0, 2.0]], "numbers"),
        ([[0.0], [1.0, 2.0]], "numbers"),
    ],
)
def test_points_that_are_none_are_refused(records, message):
    with pytest.raises(ValueError, match=message):
        GaussianCells(2, 8).encode(records)


@pytest.mark.parametrize("rounds", [0, -1])
def test_boosting_without_rounds_is_refused(rounds):
    base = finite_base([1, 1])
    with pytest.raises(ValueError, match="rounds"):
        boost_freely([0, 1, 1], base, rounds=rounds)
    with pytest.raises(ValueError, match="rounds"):
        mbde([0, 1, 1], base, 1.0, rounds=rounds)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.nan])
def test_epsilons_that_protect_nothing_are_refused(epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        mbde([0, 1, 1], finite_base([1, 1]), epsilon)


def test_symbols_are_described_in_their_domains_own_terms():
    patterns = FiniteBase.uniform(BlockPatterns())
    assert patterns.features.shape == (65_537, 17)
    assert (patterns.features[5].nonzero()[0] == [0, 2]).all()
    joint = FiniteBase.uniform(Categories({"sex": ["f", "m"], "hand": ["left", "right"]}))
    assert joint.features.tolist() == [[i, j] for i in range(4) for j in range(4)]
    labels = Reference.from_counts(Labels(["a", "b", "c"]), [1, 2, 1])
    base = FiniteBase.of(labels)
    assert base.features.ravel().tolist() == [0, 1, 2, 3, 4]
    assert base.mass == pytest.approx([0.2475, 0.495, 0.2475, 0.005, 0.005])
    known = Reference.from_counts(Labels(["a", "b"]), [1, 1, 1, 1])
    assert FiniteBase.of(known).mass.tolist() == [0.25] * 4
    with pytest.raises(ValueError, match="mass"):
        FiniteBase.of(Reference.from_counts(Labels(["a", "b"]), [1, 0]))
