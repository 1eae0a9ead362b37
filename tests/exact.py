"""What private sums hold, for tests that know every vector."""

from typing import Any

from flwr_kld.ask.noisy import noisy
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.kernel.vector import ClearSum, ShareSum
from flwr_kld.secure_sums.server import SumResult


def words(result: SumResult) -> Any:
    """The exact sum's unsigned words, shape [length]."""
    return result.total._words


def published(trust: Any, total: ClearSum | ShareSum, plan: QueryPlan, bits: Any) -> Any:
    """What a trust model makes public of a sum."""
    return noisy(trust.publish(total, plan, bits), plan)
