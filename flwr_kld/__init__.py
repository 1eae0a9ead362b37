"""Private drift monitoring for Flower federations: KL(reference || clients) on a privacy budget.

The science lives here and knows neither Flower nor Ray; ``flwr_kld.strategies`` runs in a
ServerApp, ``flwr_kld.clients`` in a ClientApp, ``flwr_kld.simulations`` on Ray or in-process.
"""

from typing import TYPE_CHECKING, Any

from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.domain.categories import Categories
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.domain.times import Times
from flwr_kld.query.monte_carlo import MonteCarlo
from flwr_kld.query.partition import Partition
from flwr_kld.reference import Reference

if TYPE_CHECKING:
    from flwr_kld.report.report import Report

__all__ = [
    "Binned",
    "BlockPatterns",
    "Categories",
    "Domain",
    "Labels",
    "MonteCarlo",
    "Partition",
    "Reference",
    "Report",
    "Table",
    "Times",
]


def __getattr__(name: str) -> Any:
    """Load `Report` when it is asked for: clients do without the statistics behind it."""
    if name != "Report":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flwr_kld.report.report import Report

    return Report
