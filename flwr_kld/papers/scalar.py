"""The paper's shape of release: one noised scalar instead of noised counts.

PRIEST-KLD, Algorithms 1 and 2, with one combined scalar (the paper's two, each at sqrt(2) eps,
jointly cost 2.06 eps), exact sensitivity, and integer noise on a fixed-point grid. A study's own
counts go in: a check of clients' releases noised counts, which measure better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from flwr_kld.calibration.central import calibrated_gaussian, calibrated_laplace
from flwr_kld.kernel.arguments import choice, keep, real
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.promise import Adjacency, Guarantee
from flwr_kld.kernel.release import Release
from flwr_kld.query.plan import QueryPlan

Vector = NDArray[np.float64]


# The scalar is (PRIEST-KLD, Algorithm 1, lines 8-10, smoothed so that it is bounded)
#
#     F(h) = Σ_x w(x) [λ (P_a(x) / Π(x) - 1) - ln(P_a(x) / Π(x))],   P_a = (h + a) / (M + A),
#
# with public weights w >= 0, smoothing a > 0, ``A = Σ a`` and normaliser M. Its exact sensitivity
# replaces the paper's Δ < 0.7 (Theorem 4.9), whose premise cannot be checked privately.


def replace_one(records: float, w: Vector, slope: Vector, a: Vector, *, others: bool) -> float:
    """Largest change of F when one of `records` records changes its symbol; M = records, public."""
    largest = w * (np.log1p(1 / a) - slope)
    smallest = w * (np.log1p(1 / (records - 1 + a)) - slope)
    if others:
        largest, smallest = np.append(largest, 0.0), np.append(smallest, 0.0)
    if len(largest) == 1:
        return 0.0  # a single symbol: nothing to change to
    top, bottom = np.argsort(-largest)[:2], np.argsort(smallest)[:2]
    return float(max(largest[u] - smallest[v] for u in top for v in bottom if u != v))


def add_remove(w: Vector, slope: Vector, a: Vector, *, most: float = np.inf) -> float:
    """Largest change of F when one of at most `most` records is added or removed, in nats."""
    first = np.abs(np.log1p(1 / a) - slope)
    last = np.abs(np.log1p(1 / (most - 1 + a)) - slope)
    return float(np.max(w * np.maximum(first, last)))


def client_level(clip: int, w: Vector, slope: Vector, a: Vector) -> float:
    """Largest change of F when a client of at most `clip` records joins or leaves, in nats."""
    k = np.arange(clip)
    increments = (w * (np.log1p(1 / (k[:, None] + a)) - slope)).ravel()
    best = np.partition(increments, -clip)[-clip:] if len(increments) > clip else increments
    return float(max(np.maximum(best, 0).sum(), clip * np.max(w * slope)))


_GRID_STEPS = 32
"""Grid steps that a sensitivity spans at least: rounding then costs at most 1/16 more noise."""
_LARGEST_COUNT = 2.0**63
"""No sum of int64 counts holds more records in a cell."""


@dataclass(frozen=True)
class Scalar:
    """Options of the scalar release."""

    # a(x) = amount * M * Π(x), which targets D_θ with θ = amount / (1 + amount), or
    # a(x) = amount records for every symbol
    smoothing: Literal["prior", "additive"] = "prior"
    amount: float = 0.01  # > 0
    lam: float = 0.0  # λ >= 0 of Algorithm 1; lowers the number by λ P(outside Π)
    records: float | None = None  # Public normaliser M, under add-remove adjacency only

    def __post_init__(self) -> None:
        keep(
            self,
            smoothing=choice("smoothing", self.smoothing, ("prior", "additive")),
            amount=real("amount", self.amount, above=0),
            lam=real("lam", self.lam, least=0),
        )
        if self.records is not None:
            keep(self, records=real("records", self.records, least=1))


@dataclass(frozen=True, eq=False)
class NoisyScalar:
    """Public: the scalar after the noise."""

    value: float  # In nats, as are the next one and the sensitivity
    standard_deviation: float
    theta: float | None  # Of the D_θ that it targets; None under additive smoothing
    records: float  # The public normaliser M
    sensitivity: float
    event: Release  # What the release cost, in grid steps
    plan: QueryPlan  # What was asked
    private: bool  # False if the noise came from a seed


class ScalarFunction:
    """F(h) for a plan, whose cells of weight 0 are not scored: its sensitivity and its grid."""

    def __init__(self, plan: QueryPlan, options: Scalar, records: float) -> None:
        self._scored = np.flatnonzero(plan.weight > 0)
        self._w = plan.weight[self._scored]
        self._pi = plan.mass[self._scored]
        domain_size = plan.reference.domain.size
        if options.smoothing == "prior":
            self._a = options.amount * records * self._pi
            total = options.amount * records
        else:
            self._a = np.full(len(self._w), options.amount)
            total = options.amount * domain_size
        self._lam = options.lam
        self._norm = records + total
        self._records = records
        self._others = len(self._scored) < domain_size

    def __call__(self, counts: NDArray[np.int64]) -> float:
        """F at exact counts, shape [cells], in nats. Private."""
        return math.fsum(self._terms(counts[self._scored].astype(float)))

    def _terms(self, h: NDArray[np.float64]) -> NDArray[np.float64]:
        ratio = (h + self._a) / (self._norm * self._pi)
        return self._w * (self._lam * (ratio - 1) - np.log(ratio))

    def sensitivity(self, adjacency: Adjacency, clip: int | None) -> float:
        """Exact sensitivity in nats; `clip` is the most records of a client, at client level."""
        slope = self._lam / (self._norm * self._pi)
        if clip is not None:
            return client_level(clip, self._w, slope, self._a)
        if adjacency is Adjacency.REPLACE_ONE:
            return replace_one(self._records, self._w, slope, self._a, others=self._others)
        return add_remove(self._w, slope, self._a)

    def grid(self, adjacency: Adjacency, clip: int | None) -> tuple[float, int]:
        """Grid step in nats, and how many steps F on the grid moves at most."""
        with np.errstate(all="ignore"):
            sensitive, error = self.sensitivity(adjacency, clip), self._float_error()
        if not sensitive > 0:
            raise ValueError(
                "the scalar is the same whatever the clients hold (a single symbol or record)"
            )
        if not math.isfinite(sensitive):
            raise ValueError("the scalar's smoothing is too small for float64")
        step = 2.0 ** math.floor(math.log2(sensitive / _GRID_STEPS))
        moves = (sensitive + 2 * error) / step if step else math.inf
        if not math.isfinite(moves):
            raise ValueError("the scalar's terms are too large beside what it may move")
        return step, math.ceil(moves) + 1

    def on_grid(self, counts: NDArray[np.int64], step: float) -> int:
        """F at exact counts, in grid steps. Private."""
        return round(self(counts) / step)

    def _float_error(self) -> float:
        """Bound on the float64 error of F and of its sensitivity, in nats (fsum adds none)."""
        # It holds for counts up to `_LARGEST_COUNT` in the logarithm and up to M in the linear
        # part. The terms are bounded one by one, because a sum may be small where its terms are
        # not.
        empty, usual, full = (
            (h + self._a) / (self._norm * self._pi) for h in (0.0, self._records, _LARGEST_COUNT)
        )
        logarithm = np.maximum(np.abs(np.log(empty)), np.abs(np.log(full)))
        return float(2**-48 * (self._w * (1 + logarithm + self._lam * (1 + usual))).sum())


@dataclass(frozen=True)
class ScalarRelease:
    """A guarantee, and the scalar that is released under it."""

    options: Scalar
    guarantee: Guarantee
    clip: int | None  # Most records of one client, where whole clients are hidden
    noise: Literal["laplace", "gaussian"]

    def release(self, counts: NDArray[np.int64], plan: QueryPlan, bits: BitSource) -> NoisyScalar:
        """Round F to a fixed-point grid and add integer noise that hides its move on it."""
        records = self.options.records
        if self.guarantee.adjacency is Adjacency.REPLACE_ONE:
            records = float(counts.sum())
        elif records is None:
            raise ValueError(
                "a scalar under add-remove adjacency needs Scalar(records=…): a public M"
            )
        function = ScalarFunction(plan, self.options, records)
        step, moves = function.grid(self.guarantee.adjacency, self.clip)
        calibrated = calibrated_laplace if self.noise == "laplace" else calibrated_gaussian
        event = calibrated(self.guarantee, shifts=(moves,))
        prior, amount = self.options.smoothing == "prior", self.options.amount
        return NoisyScalar(
            value=(function.on_grid(counts, step) + int(sample(event.table, 1, bits)[0])) * step,
            standard_deviation=step * math.sqrt(event.table.variance),
            theta=amount / (1 + amount) if prior else None,
            records=records,
            sensitivity=function.sensitivity(self.guarantee.adjacency, self.clip),
            event=event,
            plan=plan,
            private=bits.private,
        )
