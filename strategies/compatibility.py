"""Which trust model goes with which aggregation, and which one is usual."""

from __future__ import annotations

from flwr_kld.strategies.aggregation import Aggregation
from flwr_kld.strategies.plain_sum import PlainSum
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.trust import Trust


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
