"""What the paper's two algorithms share: exponential weights on sums of noised scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from flwr_kld.calibration.central import calibrated_laplace
from flwr_kld.codec.model import Model, Real, Text, Whole
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors.clipping import Clipping
from flwr_kld.predictors.fixed_share import normalised
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.local_report import LocalReport, LocalReports
from flwr_kld.predictors.predictor import Predictor, State, public_hash
from flwr_kld.predictors.readouts import Leader
from flwr_kld.predictors.score_noise import ScoreNoise, fixed_point
from flwr_kld.predictors.score_query import MOST_MOVES, ScoreQuery

_FORMAT = 1
_LEVELS = MOST_MOVES - 1
"""Grid steps that the widest possible range of scores is cut into. Rounding to them is unbiased and
adds less than 1 % to the variance of the noise for epsilon up to 4."""
_Sum = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
_Count = Annotated[int, Strict(), Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class _State(Model, what="the stored state of a predictor"):
    """What `ScorePredictor.state` returns: how it is set up, and what it has learnt."""

    format: Whole
    predictor: Text
    hypotheses: list[Text]
    epsilon: Real
    delta: Real
    horizon: Whole
    contexts: dict[str, Text]
    sums: list[_Sum]
    counts: list[_Count]


class ScorePredictor(Predictor):
    """Exponential weights with the paper's normalisation, for a known horizon."""

    name: ClassVar[str]

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon: float,
        delta: float,
        *,
        horizon: int,
        each: float,
        arms: NDArray[np.int64],
        rate: float,
    ) -> None:
        super().__init__(hypotheses, epsilon, delta)
        k = len(hypotheses.names)
        self._horizon = horizon
        self._each = each
        self._arms = arms
        self._widest = math.log((k + 1) * horizon)
        """Nats; the paper's ln(KT) is not a bound on the scores' range, see `Clipping`."""
        self._grid = self._widest / _LEVELS
        # c'(γ) of eq. (9) and (13) with γ = ln T: but for probability 1/T no noise exceeds it.
        self._offset = self._widest / each * (2 * math.log(horizon) + math.log(k))
        self._step = rate / (self._widest + 2 * self._offset)  # η c(γ)
        self._sums = np.zeros(k, dtype=np.int64)
        self._counts = np.zeros(k, dtype=np.int64)
        self._seen: dict[str, str] = {}
        self._clipped = lru_cache(maxsize=8)(self._clip)
        self._noise = lru_cache(maxsize=256)(self._build_noise)

    def query_of(self, round: int, client: str, context: str = "") -> int:
        """Which query a client is asked: a public function of round and client, never of data."""
        return public_hash(round, client) % len(self._arms)

    def query(self, number: int, context: str = "") -> ScoreQuery:
        """Return a query by its number."""
        noises = [self._noise(context, int(arm)) for arm in self._arms[number]]
        return ScoreQuery(self._clipped(context).resampling, noises)

    def check(self, report: LocalReport) -> None:
        """Raise InvalidReply unless the report's query can give its symbol."""
        if not 0 <= report.query < len(self._arms):
            raise InvalidReply("a report names a query that was not asked")
        noises = self.query(report.query, report.context).noises
        if len(report.symbol) != len(noises) or not all(
            noise.low <= score <= noise.high
            for noise, score in zip(noises, report.symbol, strict=True)
        ):
            raise InvalidReply("a report's symbol is impossible for its query")

    def update(self, reports: LocalReports) -> None:
        """Add a batch's scores."""
        if ((reports.queries < 0) | (reports.queries >= len(self._arms))).any():
            raise InvalidReply("a report names a query that was not asked")
        arms = self._arms[reports.queries]
        if arms.shape != reports.symbols.shape:
            raise InvalidReply("a report is not of the form that its query asks for")
        noises = [self._noise(reports.context, arm) for arm in range(len(self._sums))]
        low, high = (np.array([getattr(n, end) for n in noises]) for end in ("low", "high"))
        if ((reports.symbols < low[arms]) | (reports.symbols > high[arms])).any():
            raise InvalidReply("a report's symbol is impossible for its query")
        np.add.at(self._sums, arms, reports.symbols)
        np.add.at(self._counts, arms, 1)
        self._seen[reports.context] = self._clipped(reports.context).laws.fingerprint

    @property
    def log_weights(self) -> Floats:
        """Log-weights for the next report, shape [K].

        ``w_j ∝ exp(-η Σ_t Ỹ_j)`` with the losses ``Ỹ = -c(γ) (score + noise - c'(γ))``.
        """
        gains = self._grid * self._sums - self._offset * self._counts
        return normalised(self._step * gains)

    @property
    def leader(self) -> Leader:
        """The leading hypothesis and its odds.

        A report replaced moves each score that it holds by the width of what is possible at most,
        and log-odds by two of them.
        """
        widest = calibrated_laplace(Guarantee(self._each), shifts=(MOST_MOVES,)).table
        moved = min(self._arms.shape[1], 2) * (MOST_MOVES + 2 * widest.reach)
        return Leader.of(self.hypotheses.names, self.log_weights, self._step * self._grid * moved)

    def predict(self, context: str = "") -> Floats:
        """Distribution of the next label (lines 5 and 6), shape [M]."""
        return self._clipped(context).predict(self.weights)

    def merge(self, other: Self) -> None:
        """Add another state's sums."""
        shared = self._seen.keys() & other._seen.keys()
        if self._set_up() != other._set_up() or any(
            self._seen[context] != other._seen[context] for context in shared
        ):
            raise ValueError("only predictors of the same set-up can be merged")
        self._sums = self._sums + other._sums
        self._counts = self._counts + other._counts
        self._seen |= other._seen

    def state(self) -> State:
        """Return all that was learnt, as JSON-able integers."""
        return {
            **self._set_up(),
            "contexts": dict(self._seen),
            "sums": self._sums.tolist(),
            "counts": self._counts.tolist(),
        }

    def restore(self, state: State) -> None:
        """Continue from a state that a predictor of the same set-up returned."""
        read = _State.from_file(state)
        if any(getattr(read, key) != value for key, value in self._set_up().items()):
            raise ValueError("the stored state belongs to a predictor of another set-up")
        seen, sums, counts = read.contexts, np.array(read.sums), np.array(read.counts)
        if sums.shape != self._sums.shape or counts.shape != sums.shape or (counts < 0).any():
            raise ValueError(f"this is not the state of {self.name}")
        if any(self.hypotheses.at(context).fingerprint != seen[context] for context in seen):
            raise ValueError("the hypotheses have changed since the state was stored")
        self._seen, self._sums, self._counts = seen, sums, counts

    def _set_up(self) -> State:
        return {
            "format": _FORMAT,
            "predictor": self.name,
            "hypotheses": list(self.hypotheses.names),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "horizon": self._horizon,
        }

    def _clip(self, context: str) -> Clipping:
        return Clipping(self.hypotheses.at(context), self._horizon)

    def _build_noise(self, context: str, arm: int) -> ScoreNoise:
        fixed = fixed_point(self._clipped(context).scores[arm] / self._grid)
        return ScoreNoise(fixed, self._each, MOST_MOVES)
