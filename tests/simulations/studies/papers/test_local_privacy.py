"""Privacy of the paper's algorithms: the printed noise leaks, the implemented law does not.

All of it is in the law: the resampling h_t, the rounding to the grid, the noise table with its
tails, and the clamp.
"""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from predictors.candidates import COUNTER_EXAMPLE, random_laws
from scipy.special import logsumexp

from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import TOTAL
from flwr_kld.predictors.laws import Laws
from flwr_kld.simulations.studies.papers.learners import (
    Clipping,
    LocallyPrivateWMA,
    PureLocalEXP3,
    composed_delta,
)

ONE = 1 << 32


def continuous_loss(clipping, scales):
    """Largest log-ratio of Algorithm 2's printed law: continuous Laplace, public arm, and h_t.

    The supremum over outputs is attained at a kink of the densities or far out.
    """
    cells, horizon = np.log(clipping.cells / clipping.total), clipping.horizon
    worst = 0.0
    for scores, scale in zip(clipping.scores, scales, strict=True):
        far = 99 * scale
        out = np.array([*scores, scores.min() - far, scores.max() + far])
        density = -np.abs(out[:, None] - scores) / scale
        resampled = logsumexp(density + cells, axis=1)[:, None]
        law = np.logaddexp(density + math.log1p(-1 / horizon), resampled - math.log(horizon))
        worst = max(worst, float(np.ptp(law, axis=1).max()))
    return worst


@pytest.mark.parametrize(
    ("table", "epsilon", "printed"),
    [(COUNTER_EXAMPLE, 1.0, 1.019), (COUNTER_EXAMPLE, 4.0, 4.053)],
)
def test_the_papers_printed_scale_leaks_more_than_it_claims(table, epsilon, printed):
    clipping = Clipping(Laws(table), 1000)
    k = len(table)
    scale = math.log(k * 1000) / epsilon
    leaked = continuous_loss(clipping, [scale] * k)
    assert leaked == pytest.approx(printed, abs=1e-3)
    assert leaked > epsilon
    assert continuous_loss(clipping, clipping.ranges / epsilon) <= epsilon


def test_the_leak_grows_with_the_labels():
    """Disjoint supports, almost uniform: N' is nearly (K + 1) M."""
    half, k, horizon = 500, 2, 1000
    law = np.full(half, (1 + 1e-6) / (2 * half))
    law[0] = 1 - law[1:].sum()
    table = np.kron(np.eye(2), law)
    clipping = Clipping(Laws(table), horizon)
    leaked = continuous_loss(clipping, [math.log(k * horizon) / 4] * k)
    assert leaked == pytest.approx(4.19, abs=0.01)


def laws_after_resampling(query, arm):
    """P(report | resampled label) as integers over one total: rounding, noise, tails and clamp."""
    noise = query.noises[arm]
    table, outputs = noise.table, noise.high - noise.low + 1
    reach, deep = table.reach, noise.moves + 1
    unit = 1 << (64 * deep)  # makes the tail's powers integers

    def tail(beyond):
        """Mass of Z more than W + beyond, on one side."""
        power = table.tail_ratio**beyond << (64 * (deep - beyond))
        return table.tail // 2 * power

    def of_level(level):
        """Law of clip(level + Z)."""
        row = []
        for z in range(noise.low - level, noise.high - level + 1):
            beyond = abs(z) - reach
            row.append(
                table.weights[z + reach] * unit if beyond <= 0 else tail(beyond - 1) - tail(beyond)
            )
        row[0] += tail(level - noise.low - reach)
        row[-1] += tail(noise.high - level - reach)
        return row

    levels = {}
    rounded = []
    for fixed in noise.fixed.tolist():
        low, up = fixed >> 32, fixed & (ONE - 1)
        for level in {low, low + bool(up)} - levels.keys():
            levels[level] = of_level(level)
        high = levels[low + bool(up)]
        rounded.append([(ONE - up) * a + up * b for a, b in zip(levels[low], high, strict=True)])
    total = TOTAL * unit * ONE
    assert all(len(row) == outputs and sum(row) == total for row in rounded)
    return rounded, total


def exact_laws(query, arm):
    """P(report | label) as integers over one total, [M][outputs]: every step of the way is in."""
    rounded, each = laws_after_resampling(query, arm)
    replaced, cells = query.resampling.resampled, query.resampling.cells.tolist()
    kept = ((1 << 64) - replaced) * sum(cells)
    common = [sum(c * p for c, p in zip(cells, z, strict=True)) for z in zip(*rounded, strict=True)]
    rows = [[kept * p + replaced * c for p, c in zip(r, common, strict=True)] for r in rounded]
    total = each * sum(cells) << 64
    assert all(sum(row) == total for row in rows)
    return rows


def worst_ratio(rows):
    """Largest likelihood ratio between two labels, over all reports."""
    worst = Fraction(1)
    for z in zip(*rows, strict=True):
        if max(z) * worst.denominator > min(z) * worst.numerator:
            worst = Fraction(max(z), min(z))
    return worst


@pytest.mark.parametrize(
    ("table", "horizon", "epsilon", "tight"),
    [
        pytest.param(COUNTER_EXAMPLE, 1000, 1.0, 0.85, id="counter-example"),
        pytest.param(COUNTER_EXAMPLE, 10, 4.0, 0.6, id="short-horizon"),
        pytest.param(random_laws(3, 5).probabilities, 100, 2.0, 0.8, id="random"),
    ],
)
def test_every_report_of_exp3_is_private_by_its_implemented_law(table, horizon, epsilon, tight):
    predictor = PureLocalEXP3(Laws(table), epsilon, horizon=horizon)
    worst = max(worst_ratio(exact_laws(predictor.query(arm), 0)) for arm in range(len(table)))
    assert worst <= exp_below(epsilon)
    assert worst > exp_below(tight * epsilon)  # the grid and h_t hide the rest


def test_every_report_of_wma_is_private_by_exact_composition():
    """Each score is pure by its own law, given the shared resampled label; then they compose."""
    epsilon, delta = 4.0, 1e-6
    predictor = LocallyPrivateWMA(Laws(COUNTER_EXAMPLE), epsilon, delta=delta, horizon=100)
    query = predictor.query(0)
    worst = Fraction(0)
    for noise in query.noises:
        worst = max(worst, noise.table.step_ratio**noise.moves)
        assert np.ptp(noise.fixed >> 32) + 1 >= noise.moves >= np.ptp(noise.fixed) / ONE
    assert composed_delta(worst, 2, epsilon) <= delta
    assert composed_delta(worst, 2, 0.9 * epsilon) > delta
    for arm in range(2):
        assert worst_ratio(exact_laws(query, arm)) <= worst


def joint_laws(query):
    """P(both scores | label) of Algorithm 1 over two hypotheses, float64 [M, outputs, outputs].

    Rounded from exact integers: each entry is right to 15 digits.
    """
    after = []
    for arm in (0, 1):
        rows, total = laws_after_resampling(query, arm)
        after.append(np.array([[p / total for p in row] for row in rows]))
    cells, replaced = query.resampling.cells, query.resampling.resampled / 2**64
    resampled = np.einsum("y,ya,yb->ab", cells / cells.sum(), *after)  # one label, both scores
    return [
        (1 - replaced) * np.outer(a, b) + replaced * resampled for a, b in zip(*after, strict=True)
    ]


def test_both_scores_of_a_report_of_wma_are_private_together():
    """The hockey-stick divergence of the whole law, h_t shared by both scores, for all labels."""
    epsilon, delta, rounding = 2.0, 1e-3, 1e-12
    predictor = LocallyPrivateWMA(Laws(COUNTER_EXAMPLE), epsilon, delta=delta, horizon=20)
    laws = joint_laws(predictor.query(0))
    assert all(abs(law.sum() - 1) < rounding for law in laws)

    def divergence(epsilon):
        return max(
            float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in permutations(laws, 2)
        )

    assert divergence(epsilon) + rounding <= delta
    assert divergence(0.8 * epsilon) > delta  # and no more noise than it takes
