"""Private drift monitoring for Flower federations: KL(reference || clients) on a privacy budget.

The science lives here and knows neither Flower nor Ray; ``flwr_kld.strategies`` runs in a
ServerApp, ``flwr_kld.clients`` in a ClientApp, ``flwr_kld.simulations`` on Ray or in-process. What
most people import first from ``flwr_kld.strategies`` is here, too: `KLDrift`, `Trusted`,
`WholeClients` and `WithDriftChecks`. Each name is loaded when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from flwr_kld.common.extras import on_request
from flwr_kld.common.report_views import register_views

if TYPE_CHECKING:
    from flwr_kld.kernel.promise import WholeClients as WholeClients
    from flwr_kld.reference import Reference
    from flwr_kld.report.report import Report
    from flwr_kld.strategies.kl_drift import KLDrift as KLDrift
    from flwr_kld.strategies.with_drift_checks import WithDriftChecks as WithDriftChecks
    from flwr_kld.table.base import Domain
    from flwr_kld.table.binned import Binned
    from flwr_kld.table.block_patterns import BlockPatterns
    from flwr_kld.table.categories import Categories
    from flwr_kld.table.codes import Codes
    from flwr_kld.table.dialect import Dialect
    from flwr_kld.table.labels import Labels
    from flwr_kld.table.table import Table
    from flwr_kld.table.times import Times
    from flwr_kld.trust.trusted import Trusted as Trusted

    __version__: str

__all__ = [
    "Binned",
    "BlockPatterns",
    "Categories",
    "Codes",
    "Dialect",
    "Domain",
    "Labels",
    "Reference",
    "Report",
    "Table",
    "Times",
]

_FLOWERS = ("KLDrift", "WithDriftChecks")
"""Names that need Flower."""
_load, __dir__ = on_request(__name__)


def _view_of(report: Any) -> Any:
    from flwr_kld.views import view_of  # when the first report is shown

    return view_of(report)


register_views(_view_of)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("flwr-kld")
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if name not in _FLOWERS or (error.name or "").partition(".")[0] != "flwr":
            raise
        raise ImportError(f"flwr_kld.{name} needs Flower: pip install flwr") from None
