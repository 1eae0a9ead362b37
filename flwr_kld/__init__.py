"""Private drift monitoring for Flower federations: KL(reference || clients) on a privacy budget.

The science lives here and knows neither Flower nor Ray; ``flwr_kld.strategies`` runs in a
ServerApp, ``flwr_kld.clients`` in a ClientApp, ``flwr_kld.simulations`` on Ray or in-process.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flwr_kld.domain.base import Domain
    from flwr_kld.domain.binned import Binned
    from flwr_kld.domain.block_patterns import BlockPatterns
    from flwr_kld.domain.categories import Categories
    from flwr_kld.domain.labels import Labels
    from flwr_kld.domain.table import Table
    from flwr_kld.domain.times import Times
    from flwr_kld.query.partition import Partition
    from flwr_kld.reference import Reference
    from flwr_kld.report.report import Report

__all__ = [
    "Binned",
    "BlockPatterns",
    "Categories",
    "Domain",
    "Labels",
    "Partition",
    "Reference",
    "Report",
    "Table",
    "Times",
]

_PLACES = {
    "Binned": "domain.binned",
    "BlockPatterns": "domain.block_patterns",
    "Categories": "domain.categories",
    "Domain": "domain.base",
    "KLDrift": "strategies.kl_drift",
    "Labels": "domain.labels",
    "Partition": "query.partition",
    "Reference": "reference",
    "Report": "report.report",
    "Table": "domain.table",
    "Times": "domain.times",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is asked for: an auditor's or a client's process loads little else."""
    if name == "__version__":
        from importlib.metadata import version

        return version("flwr-kld")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]
