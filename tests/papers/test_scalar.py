"""The released integer: its moves, its calibration, and what it estimates."""

import math
from decimal import Decimal, localcontext
from itertools import combinations, product

import numpy as np
import pytest
from numbered import Numbered

from flwr_kld.calibration.central import calibrated_gaussian, calibrated_laplace
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.delta import hockey_stick
from flwr_kld.kernel.law import SeededBits, SystemBits, sample
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.papers.estimators import MonteCarlo
from flwr_kld.papers.scalar import Scalar, ScalarFunction, ScalarRelease
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference

MOST = 5


def histograms(records: int, symbols: int):
    """Every histogram of `records` records over `symbols` symbols."""
    for bars in combinations(range(records + symbols - 1), symbols - 1):
        yield np.diff((-1, *bars, records + symbols - 1)) - 1


def plan(weights, recipe=None, seed=0):
    reference = Reference.from_counts(Numbered(len(weights)), weights)
    return (recipe or Partition(16)).draw(reference, np.random.default_rng(seed))


PLANS = {
    "two": plan([3, 1]),
    "three": plan([5, 1e-3, 2]),
    "impossible": plan([1, 2, 0]),
    "drawn once": plan([1, 1, 1], MonteCarlo(1)),
    "drawn": plan([6, 3, 1], MonteCarlo(7)),
}
OPTIONS = [
    Scalar(smoothing, amount, lam)
    for (smoothing, amount), lam in product(
        (("prior", 0.01), ("prior", 1.0), ("additive", 0.3), ("additive", 50.0)), (0.0, 0.2, 4.0)
    )
]


def neighbours(cell_of, cells, adjacency, clip):
    """Every pair of adjacent cell counts with at most 5 records."""
    symbols = len(cell_of)
    by_cell = {
        tuple(h): np.bincount(cell_of, h, cells).astype(np.int64)
        for n in range(MOST + 1)
        for h in histograms(n, symbols)
    }
    for h, counts in by_cell.items():
        if adjacency is Adjacency.REPLACE_ONE:
            if sum(h) != MOST:
                continue
            moves = [
                np.eye(symbols, dtype=int)[v] - np.eye(symbols, dtype=int)[u]
                for u, v in product(range(symbols), repeat=2)
            ]
        else:
            moves = [m for n in range(1, (clip or 1) + 1) for m in histograms(n, symbols)]
        for move in moves:
            other = by_cell.get(tuple(np.add(h, move)))
            if other is not None:
                yield counts, other


CASES = [
    (Adjacency.REPLACE_ONE, None),
    (Adjacency.ADD_REMOVE, None),
    (Adjacency.ADD_REMOVE, 1),
    (Adjacency.ADD_REMOVE, 3),
]


@pytest.mark.parametrize(("adjacency", "clip"), CASES)
@pytest.mark.parametrize("name", PLANS)
def test_no_adjacent_histograms_are_further_apart_than_moves(name, adjacency, clip):
    drawn = PLANS[name]
    pairs = list(neighbours(drawn.cell_of, drawn.cells, adjacency, clip))
    assert pairs
    for options in OPTIONS:
        function = ScalarFunction(drawn, options, float(MOST))
        step, moves = function.grid(adjacency, clip)
        assert math.log2(step).is_integer()
        on_grid = {h.tobytes(): function.on_grid(h, step) for h, _ in pairs}
        on_grid |= {g.tobytes(): function.on_grid(g, step) for _, g in pairs}
        furthest = max(abs(on_grid[h.tobytes()] - on_grid[g.tobytes()]) for h, g in pairs)
        assert furthest <= moves
        if options.lam == 0:  # otherwise the bound may need more records than 5
            assert furthest >= moves - 3
            assert 33 <= moves <= 66


@pytest.mark.parametrize(
    ("calibrated", "delta"),
    [(calibrated_laplace, 0.0), (calibrated_laplace, 1e-6), (calibrated_gaussian, 1e-6)],
)
def test_the_table_hides_every_move_and_the_longest_is_the_worst(calibrated, delta):
    _, moves = ScalarFunction(PLANS["three"], Scalar(), 5.0).grid(Adjacency.REPLACE_ONE, None)
    epsilon = 3.0
    event = calibrated(Guarantee(epsilon, delta), shifts=(moves,))
    assert event.delta_at(epsilon) <= delta
    for below in (1.0, 0.8):
        deltas = [
            hockey_stick(event.table, (s,), below * epsilon) for s in (*range(1, moves, 5), moves)
        ]
        assert deltas == sorted(deltas)
    assert event.delta_at(0.8 * epsilon) > delta
    assert hockey_stick(event.table, (moves + 4,), epsilon) > delta


def release(drawn, symbols, options=None, bits=None, **changes):
    counts = np.bincount(drawn.cell_of[symbols], minlength=drawn.cells)
    return release_of(options, **changes).release(counts, drawn, bits or SystemBits())


def release_of(
    options, epsilon=1.0, delta=0.0, adjacency=Adjacency.REPLACE_ONE, clip=None, noise="laplace"
):
    unit = Unit.RECORD if clip is None else Unit.CLIENT
    promised = Guarantee(epsilon, delta, adjacency, unit)
    return ScalarRelease(options or Scalar(), promised, clip, noise)


def exact(drawn, options: Scalar, records: float, h) -> Decimal:
    """F in 60 digits, from the definition."""
    with localcontext(prec=60):
        size, total = drawn.reference.domain.size, Decimal(0)
        amount, m = Decimal(options.amount), Decimal(records)
        norm = m + amount * (m if options.smoothing == "prior" else size)
        for x in range(size):
            cell = drawn.cell_of[x]
            if drawn.weight[cell] > 0:
                pi = Decimal(drawn.reference.probabilities[x])
                a = amount * m * pi if options.smoothing == "prior" else amount
                ratio = (int(h[cell]) + a) / (norm * pi)
                term = Decimal(options.lam) * (ratio - 1) - ratio.ln()
                total += Decimal(drawn.weight[cell]) * term
        return total


@pytest.mark.parametrize("seed", range(20))
def test_f_is_within_its_error_bound_and_half_a_step_on_the_grid(seed):
    rng = np.random.default_rng(seed)
    options = OPTIONS[seed % len(OPTIONS)]
    records = float(10 ** rng.integers(1, 8))
    drawn = plan(rng.dirichlet(np.full(40, 0.2)) + 1e-9, Partition(20), seed)
    h = rng.multinomial(int(records), rng.dirichlet(np.full(drawn.cells, 0.2)))
    function = ScalarFunction(drawn, options, records)
    truth = exact(drawn, options, records, h)
    # The bound has room for the rounding of the constants a and M + A, too.
    error = abs(Decimal(function(h)) - truth)
    assert error <= Decimal(function._float_error())
    step, _ = function.grid(Adjacency.REPLACE_ONE, None)
    assert abs(function.on_grid(h, step) * Decimal(step) - truth) <= Decimal(step) * 51 / 100


def test_the_error_bound_does_not_vanish_where_terms_cancel():
    """λ (r - 1) = ln r at both ends of the range: the sum is 0 there, its terms are not."""
    drawn, records = plan([1, 10_000]), 100.0
    options = Scalar("additive", 0.01, math.log(10_000) / 10_000)
    function = ScalarFunction(drawn, options, records)
    assert function._float_error() > 2**-48 * 2 * math.log(10_000) * drawn.weight.min()


def test_the_release_is_the_grid_value_plus_the_sampled_integer():
    drawn, symbols = PLANS["three"], [0, 0, 2, 1, 0]
    scalar = release(drawn, symbols, bits=SeededBits(4))
    function = ScalarFunction(drawn, Scalar(), 5.0)
    step, moves = function.grid(Adjacency.REPLACE_ONE, None)
    drawn_noise = int(sample(scalar.event.table, 1, SeededBits(4))[0])
    h = np.bincount(drawn.cell_of[symbols], minlength=drawn.cells)
    assert scalar.value == (function.on_grid(h, step) + drawn_noise) * step
    assert scalar.event.moves == (moves,)
    assert scalar.event.guarantee.epsilon == 1.0
    assert scalar.event.guarantee.unit is Unit.RECORD
    assert scalar.standard_deviation == step * math.sqrt(scalar.event.table.variance)
    assert scalar.records == 5
    assert scalar.theta == pytest.approx(0.01 / 1.01)
    assert scalar.plan is drawn
    assert not scalar.private
    assert release(drawn, symbols).private


def test_releases_are_unbiased():
    """The mean of 2,000 is within 6 standard errors of F (P < 2e-9), give or take half a step."""
    drawn, symbols, bits = PLANS["three"], [0, 0, 2, 1, 0], SystemBits()
    scalars = [release(drawn, symbols, bits=bits) for _ in range(2000)]
    deviation = scalars[0].standard_deviation
    wanted = ScalarFunction(drawn, Scalar(), 5.0)(
        np.bincount(drawn.cell_of[symbols], minlength=drawn.cells)
    )
    mean = np.mean([s.value for s in scalars])
    assert abs(mean - wanted) <= 6 * deviation / 2000**0.5 + deviation / 64
    spread = np.std([s.value for s in scalars])
    assert spread == pytest.approx(deviation, rel=0.2)  # 8 standard errors (0.025 each)


@pytest.mark.parametrize("amount", [1e-4, 0.01, 0.3, 2.0])
def test_prior_smoothing_targets_the_skewed_divergence(amount):
    weights = np.array([5, 0.2, 3, 0, 1, 0.001])
    drawn, h = plan(weights), np.array([7, 0, 4, 2, 0, 1])
    on_cells = np.bincount(drawn.cell_of, h, drawn.cells).astype(np.int64)
    scored = ScalarFunction(drawn, Scalar("prior", amount), float(h.sum()))(on_cells)
    theta = amount / (1 + amount)
    assert scored == pytest.approx(
        skewed_divergence(drawn.reference.probabilities, h, theta), abs=1e-12
    )


def test_only_prior_smoothing_names_a_theta():
    symbols = [0, 1, 2]
    assert release(PLANS["three"], symbols, Scalar("prior", 0.25)).theta == 0.2
    assert release(PLANS["three"], symbols, Scalar("additive", 0.25)).theta is None


@pytest.mark.parametrize("records", [1e3, 2e4, 1e6])
def test_prior_smoothing_of_kappa_records_has_sensitivity_near_one_over_kappa(records):
    drawn = plan(np.ones(10))
    sensitivity = ScalarFunction(drawn, Scalar(), records).sensitivity(Adjacency.REPLACE_ONE, None)
    kappa = 0.01 * records
    # Π ln(1 + 1/(κΠ)) <= 1/κ; the other record's step back is 1 % of it.
    exact_value = 0.1 * (
        math.log1p(1 / (0.1 * kappa)) - math.log1p(1 / (records - 1 + 0.1 * kappa))
    )
    assert sensitivity == pytest.approx(exact_value, rel=1e-12)
    assert 0.6 / kappa < sensitivity < 1 / kappa
    assert sensitivity < 0.7 / 7  # the paper's Δ is 0.7


@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0.0), ("gaussian", 1e-6)])
@pytest.mark.parametrize(("adjacency", "clip"), CASES)
def test_the_event_says_what_was_hidden(noise, delta, adjacency, clip):
    options = Scalar(records=None if adjacency is Adjacency.REPLACE_ONE else 4.0)
    scalar = release(
        PLANS["three"],
        [0, 1, 2, 2],
        options,
        adjacency=adjacency,
        clip=clip,
        noise=noise,
        delta=delta,
    )
    _, moves = ScalarFunction(PLANS["three"], options, 4.0).grid(adjacency, clip)
    assert scalar.event.mechanism == f"discrete-{noise}"
    assert scalar.event.moves == (moves,)
    assert scalar.event.guarantee.adjacency is adjacency
    assert scalar.event.guarantee.unit is (Unit.RECORD if clip is None else Unit.CLIENT)
    assert scalar.event.delta_at(1.0) <= delta
    assert scalar.records == 4


def test_under_add_remove_the_normaliser_is_the_public_one():
    options = Scalar(records=100.0)
    scalar = release(PLANS["three"], [0, 1], options, adjacency=Adjacency.ADD_REMOVE)
    assert scalar.records == 100
    with pytest.raises(ValueError, match=r"needs Scalar\(records=…\): a public M"):
        release(PLANS["three"], [0, 1], Scalar(), adjacency=Adjacency.ADD_REMOVE)


@pytest.mark.parametrize(
    ("weights", "symbols"), [([1], [0, 0]), ([1, 1], [1])], ids=["one symbol", "one record"]
)
def test_a_scalar_that_cannot_move_is_not_released(weights, symbols):
    with pytest.raises(ValueError, match="the same whatever the clients hold"):
        release(plan(weights), symbols)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"smoothing": "none"}, "must be one of 'prior', 'additive', got 'none'"),
        ({"amount": 0.0}, "amount must be a number above 0, got 0"),
        ({"amount": -1.0}, "amount must be a number above 0"),
        ({"amount": math.inf}, "amount must be a number above 0"),
        ({"amount": math.nan}, "amount must be a number above 0"),
        ({"lam": -0.1}, "lam must be a number, at least 0, got -0.1"),
        ({"lam": math.inf}, "lam must be a number, at least 0"),
        ({"lam": math.nan}, "lam must be a number, at least 0"),
        ({"records": 0.0}, "records must be a number, at least 1, got 0"),
        ({"records": math.nan}, "records must be a number, at least 1"),
        ({"records": math.inf}, "records must be a number, at least 1"),
    ],
)
def test_options_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        Scalar(**arguments)
