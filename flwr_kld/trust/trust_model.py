"""The interface of trust models; checks, ledger, reports and planner use it.

How to write one of your own: ``docs/extending.md``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import instance, integer
from flwr_kld.kernel.law import BitSource
from flwr_kld.kernel.promise import Allotment
from flwr_kld.kernel.release import Release
from flwr_kld.kernel.selection import LabelSum
from flwr_kld.kernel.vector import ClearSum, NightNoise, Released, ShareSum
from flwr_kld.ledger import Cost
from flwr_kld.ledger.budget import warn_of_delta
from flwr_kld.table.rounded_table import own_domain
from flwr_kld.trust.terms import (
    MOST_COLUMNS,
    NO_MODEL,
    AggregatorNoise,
    Noise,
    RecordCounts,
    Terms,
    trust_of,
)
from flwr_kld.trust.visibility import SERVER_SEES_SUM, VISIBILITY, Visibility

_AGGREGATIONS = {
    "trusted": ("plain-sum", "secure-sum"),
    "distributed": ("secure-sum",),
    "trusted-aggregator": ("sealed-sum",),
    "two-aggregators": ("split-sum",),
}


OTHER_WORDS = {
    **dict.fromkeys(
        ("adjacency", "unit", "clip", "max_records", "most_records"),
        'protects= is "record", or WholeClients(most_records=…)',
    ),
    **dict.fromkeys(("noise", "noise_multiplier", "sigma"), "its noise follows from epsilon="),
}
"""Arguments of other privacy tools, and what they are here."""


class Trust(ABC):
    """Who adds the noise, and how much.

    A model in which the server adds the noise says three things: its `name`, its `guarantee`, and
    the `event` of a release. One in which others do also has `noise_before`, from which the
    messages of a check follow, and what these weigh. One that serves tables has `over`, and an
    event that depends on the `allotment`.
    """

    allotment: Allotment = Allotment.even(1)
    """How finely the counts of each column are released, and whether alike records are counted."""
    min_clients: int = 1
    """Fewest clients in a sum."""
    nights: int = 1
    """Checks of the same records that one release pays for."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name in reports."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What each check promises."""

    def over(self, allotment: Allotment | int) -> Self:
        """Return this model for counts that are released so, or alike for so many columns.

        Raises `ValueError` if it knows of whole counts of one column only.
        """
        if allotted_to(allotment) == self.allotment:
            return self
        raise ValueError(
            f"{type(self).__name__}(…) is for whole counts of one column, and is asked for "
            f"{allotment}: give it a method 'over'"
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

    @property
    def noise_before(self) -> Noise:
        """The noise that is added before the server sees a number; None if none is."""
        return None

    @property
    def source(self) -> str:
        """Which of `TRUST_MODELS` names who adds the noise, in the terms."""
        return trust_of(self.noise_before)

    @property
    def aggregator_keys(self) -> tuple[str, ...]:
        """Public keys of the aggregators, hexadecimal; none where there are none."""
        noise = self.noise_before
        return noise.keys if isinstance(noise, AggregatorNoise) else ()

    @property
    def aggregations(self) -> tuple[str, ...]:
        """Names of the aggregations under which the promise holds, the usual one first."""
        return _AGGREGATIONS[self.source]

    def visibility(self, hides_parts: bool) -> Visibility:
        """Say who sees what of a check.

        Parameters
        ----------
        hides_parts : bool
            Whether the aggregation shows the server sums only.
        """
        return (
            SERVER_SEES_SUM if self.source == "trusted" and hides_parts else VISIBILITY[self.source]
        )

    def terms(
        self,
        plan: QueryPlan,
        *,
        check: str,
        asked: int,
        until: int,
        most_records: int = 0,
        model: str = NO_MODEL,
    ) -> Terms:
        """Return the terms that all clients of a check receive.

        Nobody releases anything after `until`, in seconds since 1970. Where single records are
        protected, a client may count at most `most_records`; 0 for all.
        """
        counted = plan.reference.domain
        agreed = own_domain(counted)
        counts = RecordCounts(plan.allotment, plan.period, rounded=agreed is not counted)
        return Terms(
            check=check,
            domain=agreed.fingerprint,
            plan=plan.fingerprint,
            cells=list(plan.layout.cells),
            wire=plan.wire,
            guarantee=self.guarantee,
            asked=asked,
            until=until,
            asked_for=plan.unlisted_labels or counts,
            most_records=self.guarantee.most_records or most_records,
            model=model,
            noise=self.noise_before,
        )

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; `survivors` in the sum, by default the fewest."""
        return Cost.of(self.event(self.min_clients if survivors is None else survivors))

    def publish(
        self,
        total: ClearSum | ShareSum | LabelSum,
        plan: QueryPlan,
        noise: BitSource | NightNoise,
    ) -> Released:
        """Turn a cohort's sum into something public, where no aggregator has done so."""
        release = self.event(total.clients)
        if isinstance(total, ShareSum):
            return total.release(release)
        return total.release(release, noise)


def allotted_to(columns: Allotment | int) -> Allotment:
    """Return an allotment, or the even one to so many columns."""
    if isinstance(columns, Allotment):
        return columns
    return Allotment.even(integer("columns", columns, least=1, most=MOST_COLUMNS))


def require_trust(trust: Trust) -> None:
    """Refuse what is no trust model, and warn of one that promises next to nothing."""
    instance("trust", trust, Trust, "a trust model, such as Trusted(epsilon=1.0)")
    warn_of_delta(trust.guarantee.delta)


def require_covered(trust: Trust) -> None:
    """Reject a trust model whose guarantee does not cover that of its own release."""
    # A release may lose less than is promised, or hide more, and never the other way round.
    kept = trust.event(trust.min_clients).guarantee
    if not trust.guarantee.covers(kept):
        raise ValueError(
            f"{type(trust).__name__}(…) promises {trust.guarantee}, but its event keeps {kept}"
        )
