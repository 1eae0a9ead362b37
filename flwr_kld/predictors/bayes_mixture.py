"""The predictor: the Bayesian mixture of the hypotheses, given exact report likelihoods.

All that is stored are integers: how often each (query, symbol) was reported in each round, and
which queries a round asked. Weights are a pure function of them, so reports may come in any order,
in batches of any size, on several servers, or twice from a log, and the result is the same to the
last bit.

It replaces the paper's Algorithms 1 and 2 (`simulations/studies/papers`), whose risk stays near
that of the uniform mixture for horizons that a deployment sees.
Proof note: ``docs/proofs/predictors.md``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictFloat, StrictStr
from scipy.special import logsumexp

from flwr_kld.common.strict_model import Model, NonNegative
from flwr_kld.kernel.arguments import choice, finite, instance, integer
from flwr_kld.kernel.promise import Guarantee, WholeClients
from flwr_kld.predictors.asked import ADAPTIVE, KINDS, MOST_STATIC, Asked
from flwr_kld.predictors.designs import Design
from flwr_kld.predictors.hypotheses import Hypotheses, Hypothesis
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.query import Query
from flwr_kld.predictors.readouts import KeptRound, Leader, Refutation, likeliest
from flwr_kld.predictors.selection import PairScores, Selected, select
from flwr_kld.predictors.tally import Contexts, LocalReports, RowCounts, Tally

State = dict[str, Any]
"""JSON-able."""
Reached = tuple[int, Floats]
"""A round, and the log-weights after its reports."""
_FORMAT = 1
_Round = Annotated[str, Field(pattern="^(0|[1-9][0-9]*)$")]


@dataclass(frozen=True)
class _State(Model, what="the stored state of a predictor"):
    """What `BayesMixture.state` returns: how it is set up, and what it has learnt."""

    format: NonNegative
    predictor: StrictStr
    domain: StrictStr
    hypotheses: list[StrictStr]
    epsilon: StrictFloat
    design: StrictStr
    share: StrictFloat
    contexts: dict[str, StrictStr]
    queries: dict[str, tuple[list[StrictStr], list[NonNegative]]]
    settled: tuple[NonNegative, list[StrictFloat]] | None
    rounds: dict[_Round, dict[str, StrictStr]]


def public_hash(round: int, client: str) -> int:
    """256 bits that pick a client's query: of round and client alone, so blind to any data."""
    return int.from_bytes(hashlib.sha256(f"flwr-kld predictor {round} {client}".encode()).digest())


class BayesMixture:
    """Learns in rounds, from privatised reports, which of K hypotheses clients' labels follow.

    Clients' privacy does not rest on it: each report is private by itself.

    Parameters
    ----------
    hypotheses : Hypotheses or Mapping[str, Hypothesis]
        The K candidates, or what `Hypotheses` takes.
    epsilon : float
        What one report costs its client, in nats; pure (delta = 0).
    design : str, optional
        Which queries are asked, one of `KINDS`. ``adaptive``, the default for K > 20, chooses each
        round's from the posterior before it; the default up to there is the optimal design, the
        same in all rounds.
    share : float
        In [0, 1): how much of its weight each hypothesis gives to the uniform prior after a round,
        so that a change of the truth is followed within rounds. 0 assumes that it never changes.
    """

    def __init__(
        self,
        hypotheses: Hypotheses | Mapping[str, Hypothesis],
        epsilon: float,
        *,
        design: str | None = None,
        share: float = 0.01,
    ) -> None:
        if isinstance(hypotheses, Mapping):
            hypotheses = Hypotheses(hypotheses)
        self.hypotheses = instance(
            "hypotheses", hypotheses, Hypotheses, "Hypotheses({…}), of candidates by name"
        )
        # Fixed share (Herbster, Warmuth 1998): no hypothesis is ever given up. In log-odds the step
        # is non-expansive (Birkhoff 1957): one report still moves them by its epsilon at most.
        self._share = finite("share", share, least=0, below=1)
        self.guarantee = Guarantee(epsilon, protects=WholeClients(1))  # one record is reported
        k = len(hypotheses.names)
        self._log_prior = np.full(k, -math.log(k))
        self._settled: Reached | None = None
        usual = "design" if k <= MOST_STATIC else ADAPTIVE
        self._kind = choice("design", usual if design is None else design, KINDS)
        self._asked = Asked(hypotheses, self.epsilon, self._kind)
        self._tally = Tally()
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
        """Fold all rounds below `before` into the weights: they take no more reports."""
        for number, contexts in self._tally:
            if number < before:
                self._settled = self._with(self._settled, number, contexts)
                self._tally.drop(number)
        self._asked.forget(before)

    def _with(self, reached: Reached | None, number: int, contexts: Contexts) -> Reached:
        """Return the log-weights after the reports of a round."""
        evidence = [c.log_likelihood(self._asked.of(number, x)) for x, c in contexts.items()]
        weights = self._before(reached, number) + np.sum(evidence, axis=0)
        return number, np.asarray(weights - logsumexp(weights))

    def _before(self, reached: Reached | None, number: int) -> Floats:
        """Log-weights before a round, given those after an earlier one."""
        last, weights = reached or (number, self._log_prior)
        if self._share == 0 or number == last:
            return weights
        kept = (number - last) * math.log1p(-self._share)
        given = math.log(-math.expm1(kept))
        return np.asarray(np.logaddexp(weights + kept, self._log_prior + given))

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
                reached = self._with(reached, number, contexts)
        # A settled round takes no reports, whatever it asks.
        return self._before(reached, max(round, reached[0]) if reached else round)

    @property
    def weights(self) -> Floats:
        """Weight of each hypothesis for the next label, shape [K], summing to 1."""
        return np.asarray(np.exp(self.log_weights))

    @property
    def leader(self) -> Leader:
        """The leading hypothesis and its odds."""
        # Of a report replaced, the own likelihood ratio is taken out and another put in.
        return Leader.of(self.hypotheses.names, self.log_weights, 2 * self.epsilon)

    def predict(self, context: str = "") -> Floats:
        """Distribution of the next label, shape [M]: by the weights, or `mixture` if `refuted`."""
        proportions = self.mixture if self.refuted else self.weights
        return proportions @ self.hypotheses.at(context).probabilities

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
        factor = finite("factor", factor, least=1)
        confidence = finite("confidence", confidence, above=0, below=1)
        laws = self.hypotheses.at(context)
        scores = PairScores(laws.hypotheses)
        for design, counts in self._tally.together(self._asked.of, context).items():
            scores.add(design, counts)
        apart = scores.distances(1 - confidence)
        best, slack = select(laws, self.log_weights, apart, factor)
        name = self.hypotheses.names[best]
        return Selected(name, best, factor, slack, float(apart.min()), confidence)

    @property
    def mixture(self) -> Floats:
        """Maximum-likelihood proportions of the hypotheses in the rounds not settled, shape [K]."""
        kept = list(self._kept())
        return likeliest(kept) if kept else np.exp(self._log_prior)

    @property
    def refuted(self) -> bool:
        """Whether the rounds not settled refute every hypothesis: then `predict` is `mixture`'s."""
        return self._refutation.of(list(self._kept()))

    def _kept(self) -> Iterator[KeptRound]:
        """Yield the rounds not settled, contexts together."""
        reached = self._settled
        for number, contexts in self._tally:
            laws = [self._asked.of(number, x).law[c.rows] for x, c in contexts.items()]
            counts = np.concatenate([c.counts for c in contexts.values()])
            yield KeptRound(number, self._before(reached, number), counts, np.vstack(laws))
            reached = self._with(reached, number, contexts)

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
            "settled": self._settled and [self._settled[0], self._settled[1].tolist()],
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
            "domain": self.hypotheses.domain.fingerprint,
            "hypotheses": list(self.hypotheses.names),
            "epsilon": self.epsilon,
            "design": self._kind,
            "share": self._share,
        }


class Rejection(StrEnum):
    """Why a report was not taken."""

    IMPOSSIBLE = "impossible report"
    WRONG_QUERY = "wrong query"
    REPEATED = "repeated report"


class Intake:
    """Collects the reports of one round that can be, were asked for, and came once."""

    # A report that passes may still be a lie, and no check can tell: it is worth at most what any
    # honest one is, a move of epsilon in the log-odds of two hypotheses (two for one replaced).

    def __init__(self, predictor: BayesMixture, round: int, context: str = "") -> None:
        self._predictor, self._context = predictor, context
        self._round = integer("round", round)
        self._taken: dict[str, tuple[int, int]] = {}

    def take(self, client: str, query: int, symbol: int) -> Rejection | None:
        """Take a client's report, or say why not."""
        if client in self._taken:
            return Rejection.REPEATED
        if query != self._predictor.query_of(self._round, client, self._context):
            return Rejection.WRONG_QUERY
        asked = self._predictor.query(query, self._context)
        if not 0 <= symbol < asked.channel.classes:
            return Rejection.IMPOSSIBLE
        self._taken[client] = query, symbol
        return None

    def __len__(self) -> int:
        return len(self._taken)

    def reports(self) -> LocalReports:
        """Return what was taken, without its senders."""
        queries, symbols = np.array(list(self._taken.values()), dtype=np.int64).reshape(-1, 2).T
        return LocalReports(self._round, queries, symbols, self._context)
