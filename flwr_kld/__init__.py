"""Private drift monitoring for Flower federations: KL(reference || clients) on a privacy budget.

The science lives here and knows neither Flower nor Ray; ``flwr_kld.strategies`` runs in a
ServerApp, ``flwr_kld.clients`` in a ClientApp, ``flwr_kld.simulations`` on Ray or in-process.
"""

from flwr_kld.domain import Binned, BlockPatterns, Categories, Domain, Labels
from flwr_kld.query import MonteCarlo, Partition
from flwr_kld.reference import Reference
from flwr_kld.report import Report

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
]
