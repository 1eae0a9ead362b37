"""Which way from private data to a public reference serves, before anything is spent.

Both ways are simulated on a public guess of what the data look like, and judged by the expected KL
from that truth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.inference.divergence import skewed_divergence
from flwr_kld.integral.base import FiniteBase, Floats, finite_array
from flwr_kld.integral.fit import HELD_OUT, cooled
from flwr_kld.integral.mollifier import Mollifier, check_epsilon, project
from flwr_kld.integral.references import denoised_fractions
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import choice, real, whole
from flwr_kld.kernel.law import SeededBits, sample
from flwr_kld.kernel.promise import Adjacency

Way = Literal["draws", "histogram", "neither"]

_SHARES = (0.5, 0.3, 0.1, 0.03, 0.01)
_WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7)
_REPEATS = 8
_MOST = 10**15
"""Draws or records: both float64 and NumPy's generators hold every number up to here."""
_MOST_SYMBOLS = 1 << 22
_THETA = 0.01
"""Of checks, by default."""
_USEFUL = 0.95
"""A way is worth its budget if its KL is at most this part of the public base's."""


@dataclass(frozen=True)
class Recommendation:
    """What to expect of each way, in nats of KL from the truth (smaller is better)."""

    # Draws if the law that each follows is nearer to the truth than the histogram's reference;
    # neither if both are hardly nearer than the base
    way: Way
    base_kl: float  # Of the public base itself, which costs nothing
    # Expected, of the law that each of the k draws follows: what they are worth one by one. Where
    # symbols have features by which likeness shows, `mollify` does better than this.
    exemplar_kl: float
    draws_kl: float  # Expected, of the best reference that `reference_from_draws` can mix of all k
    histogram_kl: float  # Expected, of the reference that `reference_from_counts` makes
    # Expected divergence, as checks measure it (θ = 0.01, reference first), of data that have not
    # changed at all from that reference: thresholds belong above it
    read_unchanged: float
    box: Mollifier  # Box that the draws come from
    weight: float  # Weight to give to `reference_from_draws`

    @property
    def advice(self) -> str:
        """What to do, in a sentence."""
        return {
            "draws": "draw exemplars: they protect everybody at once, and are of use one by one",
            "histogram": "make a reference of a noised histogram: it protects one record",
            "neither": "neither way is worth its budget here: stay with the public base",
        }[self.way]

    def __str__(self) -> str:
        return (
            f"{self.advice}. KL from the truth: {self.base_kl:.3g} (base alone), "
            f"{self.histogram_kl:.3g} (histogram), {self.exemplar_kl:.3g} (law of each draw), "
            f"{self.draws_kl:.3g} (reference mixed of all draws)"
        )


def recommend(
    *,
    draws: int,
    epsilon: float,
    records: int,
    size: int,
    population: Floats | None = None,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    seed: int = 0,
) -> Recommendation:
    """Say whether draws or a noised histogram serve better.

    Parameters
    ----------
    draws : int
        k: draws wanted from a sampler; each gets ``epsilon / k``, 1e-9 nats or more.
    epsilon : float
        Total budget of either way, in nats, pure.
    records : int
        Private records, from 1 to 10**15.
    size : int
        Symbols of the domain, from 2 to 2**22. The base is the uniform law.
    population : Floats, optional
        Public guess of the truth, shape [size]. By default Zipf's law, ``P(i) ∝ 1/i``.
    adjacency : Adjacency
        Neighbouring relation of the histogram.
    seed : int
        Seed of the simulation.

    Raises
    ------
    ValueError
        If a number is out of range or the population does not fit.
    """
    draws = whole("draws", draws, least=1, most=_MOST)
    records = whole("records", records, least=1, most=_MOST)
    seed = whole("seed", seed, least=0)
    adjacency = choice("adjacency", adjacency, Adjacency)
    size = whole("size", size, least=2, most=_MOST_SYMBOLS)
    epsilon = real("epsilon", epsilon, above=0, unit="nats")
    each = check_epsilon(epsilon / draws, "epsilon / draws")
    truth = 1 / np.arange(1, size + 1) if population is None else population
    truth = finite_array("the population's masses", truth)
    if truth.shape != (size,) or (truth < 0).any() or not truth.any():
        raise ValueError(f"population must be {size} non-negative numbers that are not all zero")
    truth = truth / truth.max()
    truth = truth / truth.sum()
    base = FiniteBase(np.full(size, 1 / size), np.arange(size, dtype=np.float64)[:, None])
    generator = np.random.default_rng(seed)
    box = _best_box(truth, base, each)
    laws = [_fitted(truth, records, base, box, generator) for _ in range(_REPEATS)]
    exemplar_kl = float(np.mean([_divergence(truth, law) for law in laws]))
    base_kl = _divergence(truth, base.mass)
    draws_kl, weight = _expected_draws(truth, base.mass, laws, draws, generator)
    histogram_kl, read_unchanged = _expected_histogram(
        truth, records, epsilon, adjacency, generator
    )
    way: Way = "draws" if exemplar_kl < histogram_kl else "histogram"
    if min(exemplar_kl, histogram_kl) > _USEFUL * base_kl:
        way = "neither"
    return Recommendation(
        way, base_kl, exemplar_kl, draws_kl, histogram_kl, read_unchanged, box, weight
    )


def _best_box(truth: Floats, base: FiniteBase, epsilon: float) -> Mollifier:
    """Box of this width that holds the law nearest to the truth."""
    boxes = [Mollifier.symmetric(epsilon)]
    boxes += [Mollifier.asymmetric(epsilon, share) for share in _SHARES]
    return min(boxes, key=lambda box: _divergence(truth, project(truth, base, box)))


def _fitted(
    truth: Floats, records: int, base: FiniteBase, box: Mollifier, generator: np.random.Generator
) -> Floats:
    """Law that a learner without any notion of likeness between symbols fits to such records."""
    used, held = (
        generator.multinomial(n, truth)
        for n in (records - records // HELD_OUT, records // HELD_OUT)
    )
    log_ratio = np.log1p(used / base.mass)  # one record's worth of base beside the data
    return cooled(log_ratio, base, box, held)


def _expected_draws(
    truth: Floats, base: Floats, laws: list[Floats], draws: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Least expected KL over the weights, and that weight."""
    samples = np.concatenate([generator.multinomial(draws, q, size=_REPEATS) for q in laws])
    sample_of, symbol = np.nonzero(samples)
    lift = samples[sample_of, symbol] / draws / base[symbol]
    expected = []
    for weight in _WEIGHTS:  # only drawn symbols differ from the base
        gained = truth[symbol] @ np.log1p(lift * weight / (1 - weight)) / len(samples)
        expected.append((_divergence(truth, base) - math.log1p(-weight) - gained, weight))
    best, weight = min(expected)
    return float(best), weight


def _expected_histogram(
    truth: Floats,
    records: int,
    epsilon: float,
    adjacency: Adjacency,
    generator: np.random.Generator,
) -> tuple[float, float]:
    """KL of the truth from the reference, and what checks against it read of the truth."""
    table = calibrated_laplace(Guarantee(epsilon, 0.0, adjacency)).table
    expected = []
    for _ in range(_REPEATS):
        noise = sample(table, len(truth), SeededBits(int(generator.integers(2**63))))
        noised = generator.multinomial(records, truth) + noise
        made = denoised_fractions(noised, table)
        expected.append((_divergence(truth, made), skewed_divergence(made, truth, _THETA)))
    kl, read = np.mean(expected, axis=0).tolist()
    return kl, read


def _divergence(truth: Floats, density: Floats) -> float:
    return skewed_divergence(truth, density, 0.0)
