"""Sensitivity formulas against every pair of adjacent histograms."""

from itertools import combinations, product

import numpy as np
import pytest

from flwr_kld.papers import scalar as sensitivity


def histograms(records: int, symbols: int):
    """Every histogram of `records` records over `symbols` symbols."""
    for bars in combinations(range(records + symbols - 1), symbols - 1):
        edges = (-1, *bars, records + symbols - 1)
        yield np.diff(edges) - 1


class Case:
    """A random scalar F over a small domain; some symbols may be unscored, draws repeat."""

    def __init__(self, symbols: int, records: int, lam: float, smoothing: str, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.symbols, self.records, self.lam = symbols, records, lam
        self.pi = rng.dirichlet(np.ones(symbols)) * 0.9 + 0.1 / symbols
        draws = int(rng.integers(2, 30))
        self.w = rng.multinomial(draws, self.pi) / draws
        amount = float(rng.choice([0.1, 0.5, 1.0, 3.0]))
        self.a = np.full(symbols, amount) if smoothing == "additive" else 5 * amount * self.pi
        self.norm = records + self.a.sum()
        self.scored = self.w > 0

    @property
    def arguments(self):
        scored = self.scored
        return self.w[scored], (self.lam / (self.norm * self.pi))[scored], self.a[scored]

    def f(self, h: np.ndarray) -> float:
        ratio = (h + self.a) / (self.norm * self.pi)
        return float((self.w * (self.lam * (ratio - 1) - np.log(ratio))).sum())

    def largest(self, pairs) -> float:
        return max(abs(self.f(g) - self.f(h)) for h, g in pairs)


CASES = [
    Case(symbols, records, lam, smoothing, seed)
    for seed, (symbols, records, lam, smoothing) in enumerate(
        product((2, 3, 4), (1, 4, 7), (0.0, 0.1, 1.0, 5.0), ("prior", "additive"))
    )
]


def replacements(case: Case):
    for h in histograms(case.records, case.symbols):
        for u, v in product(range(case.symbols), repeat=2):
            if u != v and h[u] > 0:
                g = h.copy()
                g[u] -= 1
                g[v] += 1
                yield h, g


def additions(case: Case, most: int, at_once: int = 1):
    for n in range(most):
        for h in histograms(n, case.symbols):
            for added in range(1, min(at_once, most - n) + 1):
                for extra in histograms(added, case.symbols):
                    yield h, h + extra


@pytest.mark.parametrize("case", CASES)
def test_replace_one_is_exact(case):
    others = not case.scored.all()
    formula = sensitivity.replace_one(case.records, *case.arguments, others=others)
    assert formula == pytest.approx(case.largest(replacements(case)), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_add_remove_is_exact(case):
    formula = sensitivity.add_remove(*case.arguments, most=case.records)
    assert formula == pytest.approx(case.largest(additions(case, case.records)), abs=1e-12)
    assert sensitivity.add_remove(*case.arguments) >= formula  # without a bound on the records


@pytest.mark.parametrize("case", [c for c in CASES if c.lam == 0 and c.records == 7])
@pytest.mark.parametrize("clip", [1, 2, 3, 7])
def test_client_level_is_exact(case, clip):
    formula = sensitivity.client_level(clip, *case.arguments)
    assert formula == pytest.approx(case.largest(additions(case, 7, clip)), abs=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if c.lam > 0 and c.records == 4])
def test_client_level_with_lambda_bounds_every_pair(case):
    formula = sensitivity.client_level(3, *case.arguments)
    assert case.largest(additions(case, 6, 3)) <= formula + 1e-12


def test_the_paper_claims_too_little():
    """Theorem 4.9 bounds Δ by 0.7 whatever the smoothing; with little of it the truth is above."""
    w, a = np.array([0.5, 0.5]), np.full(2, 1e-3)
    assert sensitivity.replace_one(10, w, np.zeros(2), a, others=False) > 0.7
