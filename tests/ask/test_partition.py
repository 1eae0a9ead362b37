"""The default plan: a partition of the domain, within budget, with unbiased weights."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rows import counted, values_of

from examples import examples
from flwr_kld.ask.partition import Partition, _inclusion, _systematic
from flwr_kld.ask.plan import HEAD
from flwr_kld.reference import Reference
from flwr_kld.table.binned import Binned
from flwr_kld.table.categories import Categories
from flwr_kld.table.labels import Labels

DRAWS = 4000


def reference(weights, floor=0.0) -> Reference:
    return Reference.from_counts(Labels(list(range(len(weights)))), weights, floor=floor)


def draw(weights, cells=16, seed=0, floor=0.0):
    return Partition(cells).draw(reference(weights, floor), np.random.default_rng(seed))


def zipf(size: int, slope: float = 1.0) -> np.ndarray:
    return np.arange(1, size + 1) ** -slope


HARD = {
    "uniform": np.ones(100),
    "uniform, one above budget": np.ones(17),
    "Zipf": zipf(300),
    "steep": zipf(300, 3.0),
    "geometric beyond float64": 0.5 ** np.arange(300.0),
    "one heavy": np.r_[1e15, np.ones(99)],
    "all but one are dust": np.r_[1.0, np.full(99, 1e-300)],
    "ties at the edge": np.r_[np.full(8, 10.0), np.full(80, 1.0)],
    "eight heavy and dust": np.r_[np.ones(8), np.full(50, 1e-20)],
    "half is impossible": np.r_[zipf(60), np.zeros(60)],
    "support fits": np.r_[zipf(16), np.zeros(20)],
    "single": np.r_[0.0, 1.0, np.zeros(5)],
}

WEIGHTS = st.one_of(
    st.lists(st.integers(0, 4), min_size=1, max_size=120),
    st.lists(st.floats(0, 1), min_size=1, max_size=120),
    st.lists(st.floats(-40, 40), min_size=1, max_size=120).map(lambda x: np.exp(x).tolist()),
).filter(lambda w: sum(w) > 1e-9)


def check_partition(plan, budget):
    """Everything that must hold for every plan."""
    p, cells = plan.reference.probabilities, plan.cells
    assert plan.cell_of.shape == (len(p),)
    assert set(plan.cell_of) == set(range(cells))  # no cell is empty, none is unknown
    assert cells <= budget + 3
    assert plan.symbols_in.sum() == len(p)
    assert plan.mass.sum() == pytest.approx(1)
    scored = plan.weight > 0
    assert (plan.symbols_in[scored] == 1).all()
    assert (plan.weight[scored] >= plan.mass[scored] * (1 - 1e-12)).all()
    assert plan.weight[scored] == pytest.approx(plan.mass[scored] / plan.inclusion[scored])
    assert ((plan.inclusion > 0) & (plan.inclusion <= 1)).all()
    assert (plan.inclusion[~scored] == 1).all()
    assert ((plan.inclusion < 1) <= (plan.stratum != HEAD)).all()
    assert all(len(x) == cells for x in (plan.inclusion, plan.stratum))
    never, other, missing = p[:-2] == 0, len(p) - 2, len(p) - 1
    outside = [plan.cell_of[other], plan.cell_of[missing]]  # cells of their own, and the last ones
    if never.any():
        assert set(plan.cell_of[:-2][never]) == {cells - 3}
        assert plan.symbols_in[cells - 3] == never.sum()
    assert outside == [cells - 2, cells - 1]
    assert (plan.symbols_in[outside] == 1).all()
    assert np.flatnonzero(plan.outside).tolist() == list(range(cells - 2 - never.any(), cells))
    assert (plan.mass[~plan.outside] > 0).all()
    if np.count_nonzero(p) <= budget:
        assert scored.sum() == np.count_nonzero(p)
        assert plan.weight[scored] == pytest.approx(plan.mass[scored])


@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.parametrize("weights", HARD.values(), ids=HARD.keys())
def test_hard_references(weights, floor):
    for seed in range(20):
        check_partition(draw(weights, seed=seed, floor=floor), 16)


@given(WEIGHTS, st.integers(16, 60), st.integers(0, 2**32))
@settings(max_examples=examples(150))
def test_cells_are_disjoint_and_cover_the_domain(weights, cells, seed):
    check_partition(draw(weights, cells, seed), cells)


@given(WEIGHTS, st.integers(0, 2**32), st.data())
@settings(max_examples=examples(50))
def test_each_record_is_counted_once(weights, seed, data):
    plan = draw(weights, 16, seed)
    symbols = np.array(data.draw(st.lists(st.integers(0, len(weights) - 1))), dtype=np.int64)
    counts = values_of(counted(plan, symbols))[0]
    assert counts.tolist() == [int((plan.cell_of[symbols] == c).sum()) for c in range(plan.cells)]
    assert counts.sum() == len(symbols)


@pytest.mark.parametrize("cells", [-1, 0, 15])
def test_too_small_a_budget(cells):
    with pytest.raises(ValueError, match="cells"):
        Partition(cells)


def test_the_same_seed_gives_the_same_plan_and_another_another():
    prints = [draw(zipf(300), seed=seed).fingerprint for seed in (1, 1, 2)]
    assert prints[0] == prints[1] != prints[2]


@given(WEIGHTS, st.integers(8, 40))
@example([1.0] * 7 + [2.2e-313] * 2, 8)  # 1 / tail is infinite
@settings(max_examples=examples(150))
def test_inclusion_probabilities(weights, budget):
    """They are min(1, c p), and sum to the budget wherever float64 sees the tail."""
    p = np.sort(np.array(weights)[np.array(weights) > 0])[::-1] / np.sum(weights)
    p = p[p > 0]
    if len(p) <= budget:
        return
    inclusion = _inclusion(p, budget)
    tail = inclusion < 1
    assert (inclusion >= 0).all()
    assert (inclusion <= 1).all()
    assert (np.diff(inclusion) <= 1e-12).all()  # heavier symbols never less often
    if inclusion.min() > 0:
        assert inclusion.sum() == pytest.approx(budget, rel=1e-9)
        with np.errstate(over="ignore"):
            scale = inclusion[tail] / p[tail]
        assert scale == pytest.approx(np.full(tail.sum(), scale[0]), rel=1e-9)
        assert (p[~tail] * scale[0] >= 1 - 1e-9).all()
    else:  # what is never asked is lost in the rounding of what is
        assert p[inclusion == 0].sum() <= 1e-12


@pytest.mark.parametrize("ratio", [0.9, 0.95, 0.99, 0.999])
@pytest.mark.parametrize("budget", [8, 9, 20])
def test_inclusion_probabilities_solve_their_equation(ratio, budget):
    """The only c with Σ min(1, c p) = budget, found by bisection."""
    p = ratio ** np.arange(200.0)
    p /= p.sum()
    low, high = 0.0, 1e12
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.minimum(1, middle * p).sum() < budget else (low, middle)
    assert _inclusion(p, budget) == pytest.approx(np.minimum(1, high * p), rel=1e-9)


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("name", ["uniform", "Zipf", "one heavy", "ties at the edge"])
def test_inclusion_probabilities_are_met_and_the_head_is_always_there(name):
    p = np.sort(HARD[name])[::-1] / HARD[name].sum()
    inclusion, rng = _inclusion(p, 8), np.random.default_rng(5)
    picked = np.array([_systematic(inclusion, rng) for _ in range(DRAWS)])
    assert (picked.sum(axis=1) == 8).all()
    assert picked[:, inclusion == 1].all()
    deviation = np.sqrt(inclusion * (1 - inclusion) / DRAWS)
    # 6 standard deviations: P < 3e-7 for the 400 symbols of all cases together (normal 2e-9 each)
    assert (np.abs(picked.mean(axis=0) - inclusion) <= 6 * deviation + 1 / DRAWS).all()


@given(st.lists(st.floats(1e-9, 1), min_size=1, max_size=60), st.integers(0, 2000))
def test_the_head_survives_the_last_random_number_before_one(tail, head):
    class Last:
        def random(self):
            return np.nextafter(1, 0)

    picked = _systematic(np.r_[np.ones(head), tail], Last())
    assert picked[:head].all()


def test_plans_hold_the_head_and_as_many_singles_as_the_budget_leaves():
    weights = np.r_[np.full(5, 100.0), zipf(200)]
    for seed in range(200):
        plan = draw(weights, 30, seed)
        assert (plan.symbols_in[plan.cell_of[:5]] == 1).all()
        assert (plan.inclusion[plan.cell_of[:5]] == 1).all()
        assert (plan.weight > 0).sum() == 30 - 8
        assert plan.cells in (31, 32)  # the first bin holds one symbol, which may be asked


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("name", ["uniform", "Zipf", "one heavy", "half is impossible"])
def test_weights_are_unbiased(name):
    """Mean of Σ weight f against Σ Π f, within 6 standard errors (P < 2e-9 each)."""
    rng = np.random.default_rng(11)
    ref = reference(HARD[name])
    f = rng.normal(size=ref.domain.size) * 10 + np.arange(ref.domain.size) % 7
    recipe, sums = Partition(16), []
    for _ in range(DRAWS):
        plan = recipe.draw(ref, rng)
        single = np.flatnonzero(plan.weight[plan.cell_of] > 0)
        sums.append(plan.weight[plan.cell_of[single]] @ f[single])
    wanted, error = ref.probabilities @ f, np.std(sums) / DRAWS**0.5
    assert abs(np.mean(sums) - wanted) <= 6 * error
    # Power: weights without the division by the inclusion probability would be far off.
    assert error < 0.05 * np.abs(f).max()


@pytest.mark.rate(1e-6)
@pytest.mark.parametrize("name", ["uniform", "Zipf", "half is impossible"])
def test_tail_bins_have_about_the_same_mass(name):
    for seed in range(20):
        plan = draw(HARD[name], 16, seed)
        bins = (plan.weight == 0) & ~plan.outside
        counted = plan.reference.probabilities[bins[plan.cell_of]]
        assert 7 <= bins.sum() <= 8  # one that would be empty is none
        assert (np.abs(plan.mass[bins] - counted.sum() / bins.sum()) <= counted.max() + 1e-12).all()


@pytest.mark.rate(1e-6)
def test_tail_bins_are_drawn_afresh_and_without_regard_to_order():
    """Two neighbours share a bin in 1 of 8 plans: 6 standard deviations, P < 2e-9."""
    together = []
    for seed in range(400):
        plan = draw(np.ones(400), 16, seed)
        cell = plan.cell_of[:400]
        counted = (plan.weight == 0)[cell]
        pairs = counted[1:] & counted[:-1]
        together.append((cell[1:] == cell[:-1])[pairs].mean())
    assert abs(np.mean(together) - 1 / 8) <= 6 * np.std(together) / 400**0.5


@pytest.mark.parametrize("distance", [1, 4, 16, 64, 256, 1024])
def test_no_column_hides_what_happens_to_it(distance):
    """4,096 joint symbols of six columns with 4 values each; one column loses its even values.

    D is .98. In a plan that asks symbols at equal distances, all have the same value of a column.
    """
    p = np.where(np.arange(4096) // distance % 4 % 2, 2.0, 0.0)
    for seed in range(20):
        plan = draw(np.ones(4096), 1000, seed)
        asked = np.flatnonzero((plan.weight > 0)[plan.cell_of[:4096]])
        half = p[asked].mean() / 2
        # 880 symbols drawn independently: 8 standard deviations, P < 2e-15
        assert abs(half - 0.5) < 8 * 0.5 / 880**0.5
        bins = (plan.weight == 0) & ~plan.outside
        ratio = np.bincount(plan.cell_of[:4096], p, plan.cells)[bins] / plan.symbols_in[bins]
        assert np.var(ratio) > 0.5 / plan.symbols_in[bins].mean()  # adjacent symbols leave about 0


def test_a_larger_budget_has_more_bins():
    for cells, bins in ((16, 8), (127, 8), (128, 16), (1000, 120)):
        plan = draw(zipf(5000), cells)
        assert ((plan.weight == 0) & ~plan.outside).sum() == bins
        assert plan.cells in (cells + 1, cells + 2, cells + 3)


def test_each_way_to_be_outside_of_a_table_has_one_cell():
    table = Categories({"job": ["nurse", "cook"], "age": Binned([40]), "ward": ["a", "b", "c"]})
    listed = table.unlisted_index() < 0
    p = np.where(listed, np.arange(table.size) % 3, 0)
    p[-1] = 4  # rows that lack everything are in the reference
    plan = Partition(16).draw(Reference.from_counts(table, p), np.random.default_rng(0))
    impossible = p == 0
    for way in range(-1, len(table.unlisted)):
        here = impossible & (table.unlisted_index() == way)
        (cell,) = set(plan.cell_of[here])
        assert plan.outside[cell]
        assert plan.symbols_in[cell] == here.sum()
    assert plan.outside.sum() == 1 + len(table.unlisted)
    assert plan.weight[plan.cell_of[-1]] > 0
