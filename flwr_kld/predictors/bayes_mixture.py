"""The predictor: the Bayesian mixture of the hypotheses, given exact report likelihoods.

All that is stored are integers: how often each (query, symbol) was reported in each round, and
which queries a round asked. Weights are a pure function of them, so reports may come in any order,
in batches of any size, on several servers, or twice from a log, and the result is the same to the
last bit.

It replaces the paper's Algorithms 1 and 2 (`flwr_kld.papers`), whose risk stays near that of the
uniform mixture for horizons that a deployment sees.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field
from scipy.special import logsumexp

from flwr_kld.codec.model import Model, NotNegative, Real, Text
from flwr_kld.kernel.arguments import choice, instance, real, whole
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.promise import Adjacency, Guarantee, Unit
from flwr_kld.predictors.asked import KINDS, Asked, default_kind
from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.local_report import LocalReport, LocalReports, batches
from flwr_kld.predictors.query import Query
from flwr_kld.predictors.readouts import KeptRound, Leader, Refutation, likeliest
from flwr_kld.predictors.selection import PairScores, Selected, select
from flwr_kld.predictors.tally import Contexts, RowCounts, Tally

# Fixed share: hypotheses can become true later, so none is ever given up (Herbster, Warmuth 1998).
# After each round every weight gives a fraction to the prior. In log-odds the step is non-expansive
# (Birkhoff 1957), so what one report can move is still bounded by its own epsilon.


def fixed_share(log_weights: Floats, log_prior: Floats, rate: float, rounds: int) -> Floats:
    """Log-weights some rounds later, with no reports in between."""
    # Shapes: log_weights [K], log_prior [K].
    if rate == 0 or rounds == 0:
        return log_weights
    kept = rounds * math.log1p(-rate)
    given = math.log(-math.expm1(kept))
    return np.asarray(np.logaddexp(log_weights + kept, log_prior + given))


def normalised(log_weights: Floats) -> Floats:
    """Shift log-weights so that the weights sum to 1."""
    return np.asarray(log_weights - logsumexp(log_weights))


State = dict[str, Any]
"""JSON-able."""
_FORMAT = 1
_Reached = tuple[int, Floats]
"""A round, and the log-weights after its reports."""
_Round = Annotated[str, Field(pattern="^(0|[1-9][0-9]*)$")]


@dataclass(frozen=True)
class _State(Model, what="the stored state of a predictor"):
    """What `BayesMixture.state` returns: how it is set up, and what it has learnt."""

    format: NotNegative
    predictor: Text
    hypotheses: list[Text]
    epsilon: Real
    design: Text
    share: Real
    log_prior: list[Real]
    contexts: dict[str, Text]
    queries: dict[str, tuple[list[Text], list[NotNegative]]]
    settled: tuple[NotNegative, list[Real]] | None
    rounds: dict[_Round, dict[str, Text]]


def public_hash(round: int, client: str) -> int:
    """256 bits that pick a client's query: of round and client alone, so blind to any data."""
    return int.from_bytes(hashlib.sha256(f"flwr-kld predictor {round} {client}".encode()).digest())


class BayesMixture:
    """Learns from privatised counts; any batch per round, mergeable, follows changes.

    Clients' privacy does not rest on it: each report is private by itself.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K candidates.
    epsilon : float
        What one report costs its client, in nats; pure (delta = 0).
    design : str, optional
        Which queries are asked, one of `KINDS`. ``adaptive``, the default for K > 20, chooses each
        round's from the posterior before it; the default up to there is the optimal design, the
        same in all rounds.
    share : float
        In [0, 1): how much of its weight each hypothesis gives to the prior after a round, so that
        a change of the truth is followed within rounds. 0 assumes that the truth never changes.
    prior : Sequence[float], optional
        Shape [K], positive, summing to 1; by default uniform.
    """

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon: float,
        *,
        design: str | None = None,
        share: float = 0.01,
        prior: Sequence[float] | None = None,
    ) -> None:
        self.guarantee = Guarantee(epsilon, 0.0, Adjacency.REPLACE_ONE, Unit.CLIENT)
        self.hypotheses = instance(
            "hypotheses", hypotheses, Hypotheses, "Hypotheses({…}), of candidates by name"
        )
        k = len(hypotheses.names)
        self._kind = default_kind(k) if design is None else choice("design", design, KINDS)
        start = np.full(k, 1 / k) if prior is None else np.asarray(prior, dtype=np.float64)
        if start.shape != (k,) or not (start > 0).all() or abs(start.sum() - 1) > 1e-9:
            raise ValueError(f"a prior needs {k} positive weights that sum to 1")
        self._share = real("share", share, least=0, below=1)
        self._log_prior = normalised(np.log(start))
        self._asked = Asked(hypotheses, self.epsilon, self._kind)
        self._tally = Tally()
        self._settled: _Reached | None = None
        self._replayed: Floats | None = None
        self._refutation = Refutation()

    @property
    def epsilon(self) -> float:
        """Of one report, in nats."""
        return self.guarantee.epsilon

    def design(self, context: str = "", round: int | None = None) -> Design:
        """Return the queries of a context; and of a round, by default the next, if they adapt."""
        number = self._next if round is None else round
        return self._asked.design(number, context, lambda: self._at(number))

    def query_of(self, round: int, client: str, context: str = "") -> int:
        """Which query a client is asked: a public function of round, client and earlier reports."""
        picked = self.design(context, round).pick(public_hash(round, client))
        return self._asked.first(round) + picked

    def numbers(self, round: int, context: str = "") -> range:
        """Return the numbers of a round's queries, in the order of its design."""
        first = self._asked.first(round)
        return range(first, first + len(self.design(context, round).queries))

    def query(self, number: int, context: str = "") -> Query:
        """Return a query by its number."""
        round = self._asked.round_of(number)
        return self.design(context, round).queries[number - self._asked.first(round)]

    def check(self, report: LocalReport) -> None:
        """Raise InvalidReply unless the report's query can give its symbol."""
        round = self._asked.round_of(report.query)
        design = self._asked.of(round, report.context)
        place = report.query - self._asked.first(round)
        if not 0 <= place < len(design.queries):
            raise InvalidReply("a report names a query that was not asked")
        if not 0 <= report.symbol < design.starts[place + 1] - design.starts[place]:
            raise InvalidReply("a report's symbol is impossible for its query")

    def update(self, reports: LocalReports) -> None:
        """Count a batch of any size, of any round that is not settled.

        Raises `InvalidReply` if a report is impossible; then none of the batch is taken;
        `ValueError` if the round is settled.
        """
        if self._settled and reports.round <= self._settled[0]:
            raise ValueError(f"round {reports.round} is settled: these reports come too late")
        design = self._asked.of(reports.round, reports.context)
        places = reports.queries - self._asked.first(reports.round)
        rows = design.rows(places, reports.symbols)
        self._tally.add(reports.round, reports.context, RowCounts.of(rows))
        self._replayed = None

    def settle(self, before: int) -> None:
        """Fold all rounds below `before` into the weights: the state stays small.

        Settled rounds take no more reports, and two states merge only if they settled alike.
        """
        for number, contexts in self._tally:
            if number < before:
                self._settled = number, self._after(self._settled, number, contexts)
                self._tally.drop(number)
        self._asked.forget(before)

    def _before(self, reached: _Reached | None, number: int) -> Floats:
        """Log-weights before a round, given those after an earlier one."""
        last, weights = reached or (number, self._log_prior)
        return fixed_share(weights, self._log_prior, self._share, number - last)

    def _after(self, reached: _Reached | None, number: int, contexts: Contexts) -> Floats:
        """Log-weights after the reports of a round, given those after the round before."""
        weights = self._before(reached, number)
        evidence = [c.log_likelihood(self._asked.of(number, x)) for x, c in contexts.items()]
        return normalised(weights + np.sum(evidence, axis=0))

    @property
    def log_weights(self) -> Floats:
        """Log-weights for the round after the last one with reports, shape [K]."""
        if self._replayed is None:
            self._replayed = self._at(self._next)
        return self._replayed

    @property
    def _next(self) -> int:
        """The round after the last one with reports."""
        settled = [] if self._settled is None else [self._settled[0]]
        return max([0, *settled, *(number for number, _ in self._tally)]) + 1

    def _at(self, round: int) -> Floats:
        """Log-weights before a round: of the reports of all earlier ones."""
        reached = self._settled
        for number, contexts in self._tally:
            if number < round:
                reached = number, self._after(reached, number, contexts)
        # A settled round takes no reports, whatever it asks.
        return self._before(reached, max(round, reached[0]) if reached else round)

    @property
    def weights(self) -> Floats:
        """Weight of each hypothesis for the next report, shape [K], summing to 1."""
        return np.asarray(np.exp(self.log_weights))

    @property
    def leader(self) -> Leader:
        """The leading hypothesis and its odds.

        A report replaced moves log-odds by 2 ε at most: its own likelihood ratio is taken out and
        another put in.
        """
        return Leader.of(self.hypotheses.names, self.log_weights, 2 * self.epsilon)

    @property
    def mixture(self) -> Floats:
        """Maximum-likelihood proportions of the hypotheses in the rounds not settled, shape [K]."""
        kept = list(self._kept())
        return likeliest(kept) if kept else np.exp(self._log_prior)

    @property
    def refuted(self) -> bool:
        """Whether the rounds not settled refute every hypothesis: then `predict` is `mixture`'s."""
        return self._refutation.of(list(self._kept()))

    def predict(self, context: str = "") -> Floats:
        """Distribution of the next label, shape [M]: by the weights, or `mixture` if `refuted`."""
        proportions = self.mixture if self.refuted else self.weights
        return proportions @ self.hypotheses.at(context).probabilities

    def _kept(self) -> Iterator[KeptRound]:
        """Yield the rounds not settled, contexts together."""
        reached = self._settled
        for number, contexts in self._tally:
            laws = [self._asked.of(number, x).law[c.rows] for x, c in contexts.items()]
            counts = np.concatenate([c.counts for c in contexts.values()])
            yield KeptRound(number, self._before(reached, number), counts, np.vstack(laws))
            reached = number, self._after(reached, number, contexts)

    def select(
        self, context: str = "", *, factor: float = 3.0, confidence: float = 0.95
    ) -> Selected:
        """Name one hypothesis, with a total-variation guarantee that needs none to be true.

        It speaks of the law that labels of the context had in the rounds not settled.

        Parameters
        ----------
        factor : float
            At least 1: what the best hypothesis' distance is multiplied by. A larger factor needs
            fewer reports for the same slack.
        confidence : float
            In (0, 1).

        Raises
        ------
        ValueError
            If a parameter is out of range, or hypotheses have no law in the context.
        """
        factor = real("factor", factor, least=1)
        confidence = real("confidence", confidence, above=0, below=1)
        laws = self.hypotheses.at(context)
        scores = PairScores(laws.hypotheses)
        for design, counts in self._tally.together(self._asked.of, context).items():
            scores.add(design, counts)
        apart = scores.distances(1 - confidence)
        best, slack = select(laws, self.log_weights, apart, factor)
        name = self.hypotheses.names[best]
        return Selected(name, best, factor, slack, float(apart[best]), confidence)

    def risk_bound(self, rounds: int, batch: int, context: str = "") -> Floats | None:
        """Bound on the KL-risk of some rounds of `batch` reports, for each true hypothesis, [K].

        None where queries adapt: no bound is claimed for them.
        """
        if self._asked.adapts:
            return None
        design, prior = self.design(context), np.exp(self._log_prior)
        return shared_risk_bound(design, batch=batch, rounds=rounds, share=self._share, prior=prior)

    def merge(self, other: Self) -> None:
        """Add another state's counts: the result is the state of all reports together.

        Raises `ValueError` if the two are set up differently, have settled different rounds, or
        asked different queries in the same round.
        """
        if self._set_up() != other._set_up() or not self._asked.agrees_with(other._asked):
            raise ValueError("only predictors of the same set-up can be merged")
        if self._packed_settled() != other._packed_settled():
            raise ValueError("only predictors that agree on settled rounds can be merged")
        self._asked.merge(other._asked)
        self._tally.merge(other._tally)
        self._replayed = None

    def state(self) -> State:
        """Return all that was learnt, as JSON-able values: integers, but for settled weights."""
        return {
            **self._set_up(),
            "contexts": self._asked.contexts(),
            # Another machine's search may find other queries: say which ones were asked.
            "queries": {
                key: list(asked)
                for key, asked in self._asked.pack(number for number, _ in self._tally).items()
            },
            "settled": self._packed_settled(),
            "rounds": self._tally.pack(),
        }

    def restore(self, state: State) -> None:
        """Continue from a state that a predictor of the same set-up returned.

        Raises `ValueError` if the state is not readable or belongs to another set-up.
        """
        read = _State.from_file(state)
        if any(getattr(read, key) != value for key, value in self._set_up().items()):
            raise ValueError("the stored state belongs to a predictor of another set-up")
        if any(c not in read.contexts for contexts in read.rounds.values() for c in contexts):
            raise ValueError("the stored state counts reports in a context that it does not name")
        asked = Asked(self.hypotheses, self.epsilon, self._kind)
        asked.restore(read.contexts, read.queries, {int(n): c for n, c in read.rounds.items()})
        tally = Tally.unpack(read.rounds, asked.of)
        settled = None
        if read.settled is not None:
            settled = read.settled[0], np.array(read.settled[1])
            if settled[1].shape != self._log_prior.shape:
                raise ValueError("the stored weights do not fit the hypotheses")
        self._asked, self._tally, self._settled = asked, tally, settled
        self._replayed, self._refutation = None, Refutation()

    def _set_up(self) -> State:
        return {
            "format": _FORMAT,
            "predictor": "bayes-mixture",
            "hypotheses": list(self.hypotheses.names),
            "epsilon": self.epsilon,
            "design": self._kind,
            "share": self._share,
            "log_prior": self._log_prior.tolist(),
        }

    def _packed_settled(self) -> list[Any] | None:
        return None if self._settled is None else [self._settled[0], self._settled[1].tolist()]


_SETTLED = 1e-12
"""Relative change of all odds at which later rounds lose what this one does."""


# If hypothesis j is true, reports are drawn by its design and the mixture predicts before each of
# them (uniform prior, no share), then for every T
#
#     E Σ_{t=1}^T KL(f_j || p_t)  <=  Σ_{i≠j} min(½ KL(f_j || f_i), 1) / (1 - BC_ij),
#
# with BC_ij the Bhattacharyya coefficient of one report. With fixed share the loss goes on, and is
# bounded for the rounds so far.


def kl_risk_bound(design: Design, *, batch: int = 1) -> Floats:
    """Bound the cumulative KL-risk for each true hypothesis, however long; without share."""
    price, decay = _prices(design, batch), design.affinities**batch
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(price == 0, 0.0, batch * price / (1 - decay))
    return np.asarray(terms.sum(axis=1))


def shared_risk_bound(
    design: Design, *, batch: int, rounds: int, share: float, prior: Floats
) -> Floats:
    """Bound the KL-risk of some rounds for each true hypothesis, with fixed share."""
    price, decay = _prices(design, batch), design.affinities**batch
    np.fill_diagonal(decay, 0)  # no rival of itself
    leak = np.sqrt(share * prior / (1 - share))
    with np.errstate(divide="ignore"):
        least = -np.log(share * prior)[:, None]  # a share leaves j that much, in nats
    ceilings = np.minimum(-np.log(prior)[:, None] - np.arange(rounds) * np.log1p(-share), least)
    odds, total = np.sqrt(prior / prior[:, None]), np.zeros(len(prior))  # E √odds of i against j
    for over, ceiling in enumerate(ceilings.T, start=1):
        lost = (price * odds).sum(axis=1)
        total += batch * np.minimum(lost, ceiling)
        told = decay * odds
        leaked = leak * (1 + told.sum(axis=1, keepdims=True))
        before, odds = odds, np.minimum(told + leaked, np.exp(least / 2))
        if (np.abs(odds - before) <= _SETTLED * odds).all():
            later = np.minimum(lost[:, None], ceilings[:, over:]).sum(axis=1)
            return np.asarray(total + batch * later)
    return total


def _prices(design: Design, batch: int) -> Floats:
    """Bound what a label loses to each rival per √odds, shape [K, K]; 0 for equal laws."""
    whole("batch", batch, least=1, unit="reports")
    return np.asarray(np.minimum(design.laws.divergences / 2, 1))


class Rejection(StrEnum):
    """Why a report was not taken."""

    IMPOSSIBLE = "impossible report"
    WRONG_QUERY = "wrong query"
    REPEATED = "repeated report"


class Intake:
    """Collects the reports of one round that can be, were asked for, and came once."""

    # A report that passes may still be a lie, and no check can tell: it is worth at most what any
    # honest one is, a move of epsilon in the log-odds of two hypotheses (two for one replaced).

    def __init__(self, predictor: BayesMixture, round: int) -> None:
        self._predictor = predictor
        self._round = whole("round", round)
        self._taken: dict[str, LocalReport] = {}
        self.rejected: Counter[Rejection] = Counter()

    def take(self, client: str, report: LocalReport, context: str = "") -> Rejection | None:
        """Take a client's report, or say why not."""
        reason = self._objection(client, report, context)
        if reason:
            self.rejected[reason] += 1
        else:
            self._taken[client] = report
        return reason

    def _objection(self, client: str, report: LocalReport, context: str) -> Rejection | None:
        if client in self._taken:
            return Rejection.REPEATED
        asked = self._predictor.query_of(self._round, client, context)
        if (report.context, report.query) != (context, asked):
            return Rejection.WRONG_QUERY
        try:
            self._predictor.check(report)
        except InvalidReply:
            return Rejection.IMPOSSIBLE
        return None

    def __len__(self) -> int:
        return len(self._taken)

    def batches(self) -> list[LocalReports]:
        """Return what was taken, by context; order and senders are forgotten."""
        return batches(self._round, self._taken.values())
