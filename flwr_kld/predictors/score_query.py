"""The question of the paper's two algorithms: noised scores of one label. Public.

The noise is built by whoever uses the query: a client that reads one off the wire adds noise of its
own for the scores that it got, and knows what that costs, whatever the server chose.
Proof note: ``docs/proofs/local-wma.md``.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from flwr_kld.codec.model import Model
from flwr_kld.errors import DomainError, QueryRefused
from flwr_kld.kernel.delta import exp_below
from flwr_kld.kernel.law import BitSource
from flwr_kld.predictors.clipping import Resampling
from flwr_kld.predictors.composition import composed_delta
from flwr_kld.predictors.local_report import unpacked
from flwr_kld.predictors.score_noise import ScoreNoise

MOST_MOVES = 17
"""Grid steps between the largest and the smallest score of a hypothesis, at most: the grid cuts the
widest possible range into 16, and rounding reaches one further."""
_MOST_SCORES = 1 << 23
"""Of all labels together: 64 MB on a client."""
_MOST_CELLS = 1 << 48


@dataclass(frozen=True)
class _Wire(Model, what="the predictor's query", refused=QueryRefused):
    """A query as it travels; cells and scores are compressed little-endian int64."""

    channel: Literal["scores"]
    horizon: int
    epsilon: float
    scores: Annotated[int, Field(ge=1, le=_MOST_SCORES)]
    cells: bytes
    fixed: bytes


class ScoreQuery:
    """Asks for the noised scores of one or of all hypotheses."""

    kind = "scores"

    def __init__(self, resampling: Resampling, noises: Sequence[ScoreNoise]) -> None:
        self.resampling = resampling
        self.noises = noises

    @property
    def labels(self) -> int:
        """M."""
        return self.resampling.labels

    def delta(self, epsilon: float) -> Fraction:
        """Smallest delta, from above, at which a report hides its label at `epsilon` nats.

        Given the resampled label the scores are independent, and a mixture over it hides no less.
        """
        copies, each = len(self.noises), self.noises[0].epsilon
        if copies * Fraction(each) <= Fraction(epsilon):
            return Fraction(0)
        return composed_delta(exp_below(each), copies, epsilon)

    def answer(self, label: int, bits: BitSource) -> tuple[int, ...]:
        """Privatise one label, 0..M-1."""
        if not 0 <= label < self.labels:
            raise DomainError("a label is outside the domain of the query")
        return tuple(self.answers(np.array([label]), bits)[0].tolist())

    def answers(self, labels: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Privatise labels [n], each on its own."""
        mapped = self.resampling.apply(labels, bits)
        return np.stack([noise.draw(mapped, bits) for noise in self.noises], axis=1)

    def to_config(self) -> dict[str, str | int | float | bytes]:
        """Return the query as values of a Flower ConfigRecord."""
        fixed = np.stack([noise.fixed for noise in self.noises])
        return _Wire(
            channel="scores",
            horizon=self.resampling.horizon,
            epsilon=self.noises[0].epsilon,
            scores=len(self.noises),
            cells=zlib.compress(self.resampling.cells.astype("<i8").tobytes()),
            fixed=zlib.compress(fixed.astype("<i8").tobytes()),
        ).to_config()

    @classmethod
    def from_config(cls, config: object, labels: int) -> ScoreQuery:
        """Rebuild a query on a client, which builds the noise for the scores that it got."""
        wire = _Wire.from_config(config)
        try:
            if wire.scores > _MOST_SCORES // labels:
                raise ValueError("too many scores")
            cells = unpacked(wire.cells, "<i8", labels)
            fixed = unpacked(wire.fixed, "<i8", wire.scores * labels).reshape(-1, labels)
            if cells.min() < 1 or cells.max() > _MOST_CELLS // labels:
                raise ValueError("cells are out of range")
            noises = [ScoreNoise(own, wire.epsilon, MOST_MOVES) for own in fixed]
            return cls(Resampling(cells, wire.horizon), noises)
        except (ValueError, ArithmeticError):
            raise QueryRefused("the predictor's query is not readable over this domain") from None
