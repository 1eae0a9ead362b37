"""What every trust model says of itself; check, ledger, report and planner ask it.

How to write one of your own: ``docs/trust-models.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from flwr_kld.accounting import Cost
from flwr_kld.calibration.central import box_event
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.count import MOVES
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.vector import ClearSum, Released, ShareSum
from flwr_kld.messages.question import Question
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.split_terms import SplitTerms
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.query.plan import QueryPlan
from flwr_kld.trust.sight import (
    AGGREGATOR_SEES_PARTS,
    CLIENTS_ADD_NOISE,
    SERVER_SEES_PARTS,
    SERVER_SEES_SUM,
    Sight,
)
from flwr_kld.trust.traffic import Traffic, plain_traffic, sealed_traffic, secure_traffic


class Trust(ABC):
    """Who adds the noise, and how much.

    A model in which the server adds the noise says three things: its `name`, its `guarantee`, and
    the `event` of a release. One in which others do also has `noise_terms` or `release_terms`, from
    which the messages of a check follow, and what these weigh. One that serves tables has
    `columns`, on which its event depends, and `over`.
    """

    columns: int = 1
    """Symbols that a record has: one, or of a table as many as columns."""
    min_clients: int = 1
    """Fewest clients in a sum."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What each check promises."""

    def over(self, columns: int) -> Self:
        """Return this model for records that have a symbol in each of so many columns.

        Raises
        ------
        ValueError
            If it knows of one only.
        """
        if columns == self.columns:
            return self
        raise ValueError(
            f"{type(self).__name__}(…) is for records of one column, and the table has {columns}: "
            "give it a method 'over'"
        )

    @abstractmethod
    def event(self, clients: int) -> Release:
        """Return the release of a sum: its noise, and the move of the counts that this hides.

        Parameters
        ----------
        clients : int
            Clients in the sum.

        Raises
        ------
        ValueError
            If the release depends on more than that: a single number's, on the plan.
        """

    def sums_event(self, clients: int) -> Release:
        """Return the release of sums of scores, in their steps.

        By default pure discrete Laplace noise, or Gaussian noise where that is less: of many
        columns, with ``delta > 0``.

        Parameters
        ----------
        clients : int
            Clients in the sum.
        """
        return box_event(self.guarantee, MOVES * self.columns)

    def event_of(self, plan: QueryPlan, clients: int) -> Release:
        """Return the release of what a plan asks; the errors are those of `event`."""
        return self.event(clients) if plan.scores is None else self.sums_event(clients)

    @property
    def noise_terms(self) -> NoiseTerms | None:
        """Noise that clients add to counts; None if they add none."""
        return None

    @property
    def sums_terms(self) -> NoiseTerms | None:
        """Noise that clients add to sums of scores; None if they add none."""
        return None

    def terms_of(self, plan: QueryPlan) -> NoiseTerms | None:
        """Return the noise that clients add to what a plan asks; None if they add none."""
        return self.noise_terms if plan.scores is None else self.sums_terms

    @property
    def release_terms(self) -> ReleaseTerms | None:
        """What an aggregator is to do; None where there is none."""
        return None

    def release_of(self, plan: QueryPlan) -> ReleaseTerms | SplitTerms | None:
        """Return what aggregators are to do with the sum of what a plan asks, if there are any."""
        return self.release_terms

    @property
    def aggregator_keys(self) -> tuple[str, ...]:
        """Public keys of the aggregators, hexadecimal; none where there are none."""
        return ()

    @property
    def most_records(self) -> int:
        """Records a client may count; 0 for no limit."""
        return 0

    @property
    def noise_source(self) -> str:
        """Who adds the noise, as clients are told: they hold the question and its way to it."""
        if self.release_terms is not None:
            return "trusted-aggregator"
        return "trusted" if self.noise_terms is None else "distributed"

    @property
    def aggregations(self) -> tuple[str, ...]:
        """Names of the aggregations under which the promise holds, the usual one first."""
        if self.release_terms is not None:
            return ("sealed-sum",)
        return ("plain-sum", "secure-sum") if self.noise_terms is None else ("secure-sum",)

    def sight(self, hides_parts: bool) -> Sight:
        """Say who sees what of a check.

        Parameters
        ----------
        hides_parts : bool
            Whether the aggregation shows the server sums only.
        """
        if self.release_terms is not None:
            return AGGREGATOR_SEES_PARTS
        if self.noise_terms is not None:
            return CLIENTS_ADD_NOISE
        return SERVER_SEES_SUM if hides_parts else SERVER_SEES_PARTS

    def traffic(
        self,
        plan: QueryPlan,
        *,
        aggregation: str,
        clients: int,
        known: int,
        twice: bool = False,
    ) -> Traffic:
        """Return what a client is sent and sends in one exchange in which everybody answers.

        Parameters
        ----------
        aggregation : str
            One of `aggregations`.
        clients : int
            Number of clients that are asked.
        known : int
            That might be: clients of a secure sum know everybody's key.
        twice : bool
            Whether these clients are asked in both halves of a check: first for counts, then for
            sums of scores. A secure sum sets up its keys for both along with the first.
        """
        question = self._question(plan, clients)
        if self.release_terms is not None:
            return sealed_traffic(question, self.release_terms)
        if aggregation == "secure-sum":
            return secure_traffic(question, self.terms_of(plan), clients, known, twice)
        return plain_traffic(question)

    def _question(self, plan: QueryPlan, clients: int) -> Question:
        """Return what one of so many clients is asked."""
        return Question(
            check="0" * 16,
            domain=plan.reference.domain.fingerprint,
            reference=plan.reference.fingerprint,
            plan=plan.fingerprint,
            cells=plan.cells,
            wire=plan.wire,
            members=[0],
            trust=self.noise_source,
            guarantee=self.guarantee,
            clip=self.most_records if plan.scores is None else plan.scores[0].most_records,
            asked=clients,
            columns=self.columns,
            selection=plan.selection,
            score_wire=plan.score_wire,
        )

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; `survivors` in the sum, by default the fewest."""
        return Cost.of(self.event(self.min_clients if survivors is None else survivors))

    def sums_cost(self, survivors: int | None = None) -> Cost:
        """Return what one release of sums of scores costs; `survivors` as in `cost`."""
        return Cost.of(self.sums_event(self.min_clients if survivors is None else survivors))

    def publish(self, total: ClearSum | ShareSum, plan: QueryPlan, bits: BitSource) -> Released:
        """Turn a cohort's sum into something public: the one place where privacy is spent."""
        release = self.event_of(plan, total.clients)
        if isinstance(total, ShareSum):
            return total.release(release)
        return total.release(release, bits)


def require_trust(trust: object) -> None:
    """Refuse what is no trust model."""
    instance("trust", trust, Trust, "a trust model, such as Trusted(epsilon=1.0)")


def require_kept(trust: Trust) -> None:
    """Refuse a trust model whose promise does not cover what its own release keeps.

    A release may lose less than is promised, or hide more, and never the other way round.
    """
    kept = trust.event(trust.min_clients).guarantee
    if not trust.guarantee.covers(kept):
        raise ValueError(
            f"{type(trust).__name__}(…) promises {trust.guarantee}, but its event keeps {kept}"
        )


def require_known_sizes(trust: Trust) -> None:
    """Refuse a limit on clients' records where their number is hidden.

    A client at the limit would either leave out another record for one that comes, which moves two
    counts where the noise hides one, or be left out, which everybody sees.
    """
    if trust.guarantee.unit is Unit.CLIENT:
        raise ValueError("most_records= is for record-level privacy: clip= is a client's limit")
    if trust.guarantee.adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "most_records= needs Adjacency.REPLACE_ONE: under add-remove adjacency a client at the "
            "limit would show it; or protect whole clients with clip="
        )
