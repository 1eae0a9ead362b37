"""What every trust model offers a check."""

from __future__ import annotations

from typing import Protocol

from flwr_kld.accounting import Cost
from flwr_kld.counts import ClearSum, NoisyCounts
from flwr_kld.counts.scalar import NoisyScalar
from flwr_kld.messages.release_terms import ReleaseTerms
from flwr_kld.messages.sum_terms import NoiseTerms
from flwr_kld.privacy import Adjacency, BitSource, Guarantee, Unit
from flwr_kld.query import QueryPlan


class Trust(Protocol):
    """Who adds the noise, and how much."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What each check promises."""
        ...

    @property
    def noise_terms(self) -> NoiseTerms | None:
        """Noise that clients add; None if they add none."""
        ...

    @property
    def release_terms(self) -> ReleaseTerms | None:
        """What an aggregator is to do; None where there is none."""
        ...

    @property
    def least_clients(self) -> int:
        """Fewest clients in a sum."""
        ...

    @property
    def most_records(self) -> int:
        """Records a client may count; 0 for no limit."""
        ...

    def cost(self, survivors: int | None = None) -> Cost:
        """Return what one release costs; `survivors` in the sum, by default the fewest."""
        ...

    def prepare(self, plan: QueryPlan, clients: int) -> None:
        """Refuse, before anything is counted, a plan whose release could fail for some counts.

        Raises
        ------
        ValueError
            Why; from public numbers only.
        """
        ...

    def publish(self, clear: ClearSum, bits: BitSource) -> NoisyCounts | NoisyScalar:
        """Turn a cohort's sum into something public: the one place where privacy is spent."""
        ...


def require_counts(trust: Trust) -> None:
    """Refuse a release from which nothing can be decided.

    Raises
    ------
    ValueError
        Which one to take.
    """
    release = getattr(trust, "release", "counts")
    if release != "counts":
        raise ValueError('a threshold needs release="counts": one number gives no bound')


def require_known_sizes(trust: Trust) -> None:
    """Refuse a limit on clients' records where their number is hidden.

    A client at the limit would either leave out another record for one that comes, which moves two
    counts where the noise hides one, or be left out, which everybody sees.

    Raises
    ------
    ValueError
        What to take.
    """
    if trust.guarantee.unit is Unit.CLIENT:
        raise ValueError("most_records= is for record-level privacy: clip= is a client's limit")
    if trust.guarantee.adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "most_records= needs Adjacency.REPLACE_ONE: under add-remove adjacency a client at the "
            "limit would show it; or protect whole clients with clip="
        )
