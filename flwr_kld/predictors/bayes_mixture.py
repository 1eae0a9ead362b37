"""The default predictor: the Bayesian mixture of the hypotheses, given exact report likelihoods.

All that is stored are integers: how often each (query, symbol) was reported in each round. Weights
are a pure function of them, so reports may come in any order, in batches of any size, on several
servers, or twice from a log, and the result is the same to the last bit.

It replaces the paper's Algorithms 1 and 2 (`LocallyPrivateWMA`, `PureLocalEXP3`), whose risk stays
near that of the uniform mixture for horizons that a deployment sees.
Proof note: ``docs/proofs/bayes-mixture.md``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field

from flwr_kld.arguments import real
from flwr_kld.codec.exact import NotNegative, Real, Text
from flwr_kld.codec.model import Model
from flwr_kld.errors import InvalidReply
from flwr_kld.predictors.design import Design
from flwr_kld.predictors.designs import DESIGNS
from flwr_kld.predictors.fixed_share import fixed_share, normalised
from flwr_kld.predictors.hypotheses import Hypotheses
from flwr_kld.predictors.laws import Floats
from flwr_kld.predictors.leader import Leader
from flwr_kld.predictors.local_report import LocalReport, LocalReports
from flwr_kld.predictors.mixture_weights import mixture_weights
from flwr_kld.predictors.predictor import Predictor, State, public_hash
from flwr_kld.predictors.query import Query
from flwr_kld.predictors.risk_bound import shared_risk_bound
from flwr_kld.predictors.tally import Contexts, RowCounts, Tally

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


class BayesMixture(Predictor):
    """Learns from privatised counts; any batch per round, mergeable, follows changes.

    Parameters
    ----------
    hypotheses : Hypotheses
        The K candidates.
    epsilon : float
        What one report costs its client, in nats; pure (delta = 0).
    design : str
        Which queries are asked, one of `DESIGNS`; by default the optimal design for K <= 100 and
        one-versus-rest beyond.
    share : float
        In [0, 1): how much of its weight each hypothesis gives to the prior after a round, so that
        a change of the truth is followed within rounds. 0 assumes that the truth never changes.
    prior : Sequence[float], optional
        Shape [K], positive, summing to 1; by default uniform.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    def __init__(
        self,
        hypotheses: Hypotheses,
        epsilon: float,
        *,
        design: str = "default",
        share: float = 0.01,
        prior: Sequence[float] | None = None,
    ) -> None:
        super().__init__(hypotheses, epsilon, 0.0)
        if design not in DESIGNS:
            raise ValueError(f"design must be one of {', '.join(DESIGNS)}, got {design!r}")
        k = len(hypotheses.names)
        start = np.full(k, 1 / k) if prior is None else np.asarray(prior, dtype=np.float64)
        if start.shape != (k,) or not (start > 0).all() or abs(start.sum() - 1) > 1e-9:
            raise ValueError(f"a prior needs {k} positive weights that sum to 1")
        self._kind = design
        self._share = real("share", share, least=0, below=1)
        self._log_prior = normalised(np.log(start))
        self._designs: dict[str, Design] = {}
        self._tally = Tally()
        self._settled: _Reached | None = None
        self._replayed: Floats | None = None

    def design(self, context: str = "") -> Design:
        """Return the queries asked in a context; built once for each table of laws."""
        if context not in self._designs:
            laws = self.hypotheses.at(context)
            self._designs[context] = DESIGNS[self._kind](laws, self.epsilon)
        return self._designs[context]

    def query_of(self, round: int, client: str, context: str = "") -> int:
        """Which query a client is asked: a public function of round and client, never of data."""
        return self.design(context).pick(public_hash(round, client))

    def query(self, number: int, context: str = "") -> Query:
        """Return a query by its number."""
        return self.design(context).queries[number]

    def check(self, report: LocalReport) -> None:
        """Raise InvalidReply unless the report's query can give its symbol."""
        design = self.design(report.context)
        if len(report.symbol) != 1 or not 0 <= report.query < len(design.queries):
            raise InvalidReply("a report is not of the form that its query asks for")
        if (
            not 0
            <= report.symbol[0]
            < design.starts[report.query + 1] - design.starts[report.query]
        ):
            raise InvalidReply("a report's symbol is impossible for its query")

    def update(self, reports: LocalReports) -> None:
        """Count a batch of any size, of any round that is not settled.

        Raises
        ------
        InvalidReply
            If a report is impossible; then none of the batch is taken.
        ValueError
            If the round is settled.
        """
        if self._settled and reports.round <= self._settled[0]:
            raise ValueError(f"round {reports.round} is settled: its reports come too late")
        if reports.symbols.shape[1] != 1:
            raise InvalidReply("a report is not of the form that its query asks for")
        rows = self.design(reports.context).rows(reports.queries, reports.symbols[:, 0])
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

    def _after(self, reached: _Reached | None, number: int, contexts: Contexts) -> Floats:
        """Log-weights after the reports of a round, given those after the round before."""
        last, weights = reached or (number, self._log_prior)
        weights = fixed_share(weights, self._log_prior, self._share, number - last)
        evidence = [c.log_likelihood(self.design(context)) for context, c in contexts.items()]
        return normalised(weights + np.sum(evidence, axis=0))

    @property
    def log_weights(self) -> Floats:
        """Log-weights for the round after the last one with reports, shape [K]."""
        if self._replayed is None:
            reached = self._settled
            for number, contexts in self._tally:
                reached = number, self._after(reached, number, contexts)
            last = self._log_prior if reached is None else reached[1]
            self._replayed = fixed_share(last, self._log_prior, self._share, 1)
        return self._replayed

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
        rows = [(c.counts, self.design(x).law[c.rows]) for x, c in self._tally.together().items()]
        if not rows:
            return np.exp(self._log_prior)
        counts, laws = zip(*rows, strict=True)
        return mixture_weights(np.concatenate(counts), np.vstack(laws))

    def risk_bound(self, rounds: int, batch: int, context: str = "") -> Floats:
        """Bound on the KL-risk of some rounds of `batch` reports, for each true hypothesis, [K]."""
        return shared_risk_bound(
            self.design(context),
            batch=batch,
            rounds=rounds,
            share=self._share,
            prior=np.exp(self._log_prior),
        )

    def merge(self, other: Self) -> None:
        """Add another state's counts: the result is the state of all reports together.

        Raises
        ------
        ValueError
            If the two are set up differently or have settled different rounds.
        """
        shared = self._designs.keys() & other._designs.keys()
        if self._set_up() != other._set_up() or not all(
            self._designs[context].asks_as(other._designs[context]) for context in shared
        ):
            raise ValueError("only predictors of the same set-up can be merged")
        if self._packed_settled() != other._packed_settled():
            raise ValueError("predictors merge only if they have settled the same rounds alike")
        self._designs = other._designs | self._designs
        self._tally.merge(other._tally)
        self._replayed = None

    def state(self) -> State:
        """Return all that was learnt, as JSON-able values: integers, but for settled weights."""
        designs = {design.laws.fingerprint: design for design in self._designs.values()}
        return {
            **self._set_up(),
            "contexts": {c: design.laws.fingerprint for c, design in self._designs.items()},
            # Another machine's search may find other queries: say which ones were asked.
            "queries": {
                k: [*map(list, (d.names, d.weights))] for k, d in designs.items() if d.searched
            },
            "settled": self._packed_settled(),
            "rounds": self._tally.pack(),
        }

    def restore(self, state: State) -> None:
        """Continue from a state that a predictor of the same set-up returned.

        Raises
        ------
        ValueError
            If the state is not readable or belongs to another set-up.
        """
        read = _State.from_file(state)
        if any(getattr(read, key) != value for key, value in self._set_up().items()):
            raise ValueError("the stored state belongs to a predictor of another set-up")
        if any(c not in read.contexts for contexts in read.rounds.values() for c in contexts):
            raise ValueError("the stored state counts reports in a context that it does not name")
        designs = self._stored_designs(read.contexts, read.queries)
        tally = Tally.unpack(read.rounds, designs)
        settled = None
        if read.settled is not None:
            settled = read.settled[0], np.array(read.settled[1])
            if settled[1].shape != self._log_prior.shape:
                raise ValueError("the stored weights do not fit the hypotheses")
        self._designs, self._tally, self._settled = designs, tally, settled
        self._replayed = None

    def _stored_designs(
        self, contexts: Mapping[str, str], queries: Mapping[str, tuple[list[str], list[int]]]
    ) -> dict[str, Design]:
        """Build each context's design again, with the queries that were asked."""
        built: dict[str, Design] = {}
        for context, fingerprint in contexts.items():
            laws = self.hypotheses.at(context)
            if laws.fingerprint != fingerprint:
                raise ValueError(f"the hypotheses have changed in context {context!r}")
            if fingerprint in built:
                continue
            if fingerprint in queries:
                built[fingerprint] = Design.of(laws, self.epsilon, *queries[fingerprint])
                built[fingerprint].searched = True
            else:
                built[fingerprint] = DESIGNS[self._kind](laws, self.epsilon)
        return {context: built[fingerprint] for context, fingerprint in contexts.items()}

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
