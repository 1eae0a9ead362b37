"""Which aggregation serves which trust model."""

from __future__ import annotations

from flwr_kld.privacy import Adjacency, Unit
from flwr_kld.strategies.plain_sum import PlainSum
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.strategies.trust import Aggregation, Trust


def usual_aggregation(trust: Trust) -> Aggregation:
    """Return the one that is used if none is given."""
    return PlainSum() if trust.release_terms is None else SealedSum()


def require_pair(trust: Trust, aggregation: Aggregation) -> None:
    """Refuse an aggregation under which the trust model's promise would not hold.

    Raises
    ------
    ValueError
        Which one to take.
    """
    mine = f"trust={type(trust).__name__}(…)"
    if trust.release_terms is not None and not aggregation.adds_noise:
        raise ValueError(
            f"{mine} needs aggregation=SealedSum(), its default: leave aggregation out, so that "
            "counts are sealed for the aggregator"
        )
    if trust.release_terms is None and aggregation.adds_noise:
        raise ValueError(
            f"aggregation={type(aggregation).__name__}(…) needs trust=TrustedAggregator(…): "
            f"{mine} names no aggregator to seal counts to"
        )
    if trust.noise_terms is not None and not aggregation.hides_parts:
        raise ValueError(
            f"{mine} needs aggregation=SecureSum(): a client's share of the noise does not hide "
            "its own counts"
        )


def require_counts(trust: Trust) -> None:
    """Refuse a release from which nothing can be decided.

    Raises
    ------
    ValueError
        Which one to take.
    """
    release = getattr(trust, "release", "counts")
    if release != "counts":
        raise ValueError('a threshold needs release="counts": one number certifies no bound')


def require_known_sizes(trust: Trust) -> None:
    """Refuse a limit on clients' records where their number is hidden.

    A client at the limit would either leave out another record for one that comes, which moves two
    counts where the noise hides one, or be left out, which everybody sees.

    Raises
    ------
    ValueError
        What to take.
    """
    if trust.unit is Unit.CLIENT:
        raise ValueError("most_records= is for record-level privacy: clip= is a client's limit")
    if trust.adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "most_records= needs Adjacency.REPLACE_ONE: under add-remove adjacency a client at the "
            "limit would show it; or protect whole clients with clip="
        )
