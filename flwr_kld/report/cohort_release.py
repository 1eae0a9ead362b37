"""A release with its plan and its cohort: the first of three envelopes after the noise.

A column's evidence, `ColumnReport`, follows from it, and then the report. Estimators and tests take
its `values` alone, `NoisyCounts`, which know the plan and no clients; what needs both (design
effects, what one client may have done, whom a number is about) is asked of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flwr_kld.ask.cohort import AskedClients, Participant
from flwr_kld.ask.noisy import NoisyCounts, NoisyLabels
from flwr_kld.infer.contradictions import contradiction
from flwr_kld.infer.estimators.design_effect import (
    INDEPENDENT,
    Clients,
    DesignEffects,
    spread,
)
from flwr_kld.kernel.count import ClientSizes
from flwr_kld.kernel.vector import Released
from flwr_kld.report.envelope import OneClient
from flwr_kld.trust.signed_numbers import SignedNumbers
from flwr_kld.trust.terms import Terms

_SPARE = 1.25
"""Records of one client, over the mean, where nobody sees their sizes and nothing limits them."""

_FROZEN = ", {:.2g} % of whose records have changed since they were counted"


@dataclass(frozen=True)
class CohortRelease:
    """Public: what one exchange with a cohort released, and of which clients."""

    values: NoisyCounts | NoisyLabels  # After the noise
    asked: AskedClients
    survivors: int  # Clients in the sum
    left_out: dict[Participant, str]  # Why each client that is not in the sum is not
    traffic: tuple[float, float]  # Bytes down and up for each client asked, mean
    most_records: int = 0  # That a client counted at most, where that was agreed; 0 for all
    # How records are shared out among clients, where whoever adds up sees it and it is public
    sizes: ClientSizes | None = None
    # Whether somebody saw each client's numbers, and held them to what one may answer
    enforces_limits: bool = True
    carried: int = 0  # Clients of a session that are silent, and count as they did before
    # What was asked, what came of it in steps, and what aggregators signed of it, for evidence
    terms: Terms | None = None
    released: Released | None = None
    signed: tuple[SignedNumbers, ...] = ()

    @property
    def published(self) -> NoisyCounts:
        """The counts; labels are refused."""
        if not isinstance(self.values, NoisyCounts):
            raise TypeError("labels are no counts")
        return self.values

    @property
    def columns(self) -> dict[str, CohortRelease]:
        """What was published of each column, by name."""
        columns = self.published.columns.items()
        return {name: replace(self, values=column) for name, column in columns}

    def contradiction(self) -> str | None:
        """Say what cannot be in the published counts, if clients count what they agreed to."""
        for column in self.published.columns.values():
            found = contradiction(column, self.survivors, self.most_records)
            if found is not None:
                return found
        return None

    @property
    def counted(self) -> list[Participant]:
        """The clients in the sum."""
        return [p for p in self.asked.participants if p not in self.left_out]

    @property
    def whose(self) -> str:
        """Whom the counts are of."""
        return f"these {self.survivors} clients{self._limits}"

    @property
    def drawn_from(self) -> str:
        """Whom the population's estimate is about."""
        if not self.asked.drawn:
            return self.whose
        return f"the clients that these {self.survivors} were drawn from{self._limits}"

    @property
    def _limits(self) -> str:
        most = self.most_records
        limit = f", counting at most {most:,} records of each" if most else ""
        frozen = self.values.frozen_share if isinstance(self.values, NoisyCounts) else 0.0
        return limit + (_FROZEN.format(100 * frozen) if frozen else "")

    @property
    def effects(self) -> DesignEffects:
        """How much the counts of one column vary over draws of clients."""
        return self.effects_within(None)

    def effects_within(self, groups: NoisyCounts | None) -> DesignEffects:
        """Return `effects` of the records within groups, whose own column's counts are given."""
        if not self.asked.drawn:
            return INDEPENDENT
        counts, sizes = self.published, self.sizes
        if not counts.alike:  # nothing tells that the records of a client are not all alike
            return DesignEffects(max(self.most_alike, 1.0), max(self.most_alike, 1.0))
        clients = Clients(self.most_alike - 1, 0 if sizes is None else sizes.single)
        return DesignEffects.of(spread(counts, clients, groups), self.most_alike)

    @property
    def sizes_known(self) -> bool:
        """Whether the records of the largest client are known or limited."""
        return self.sizes is not None or bool(self.most_records)

    @property
    def most_alike(self) -> float:
        """Design effect if all records of each client are alike, at most."""
        if self.sizes is not None:
            return self.sizes.others + 1
        return self.most_records or _SPARE * self.published.records / self.survivors

    @property
    def one_client(self) -> OneClient:
        """What a single client may do to these numbers."""
        held, most = self.enforces_limits, self.most_records or None
        if self.sizes is not None:
            return OneClient(most, share=self.sizes.share, name=self.sizes.holder, held=held)
        share = None
        if most is not None and held and isinstance(self.values, NoisyCounts):
            share = min(most / self.values.records, 1.0)
        return OneClient(most, share=share, held=held)
