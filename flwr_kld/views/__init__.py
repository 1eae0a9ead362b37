"""Ways to look at reports: text, pages, plots, frames, metrics. Functions of what reports hold."""

from typing import TYPE_CHECKING, Any

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.views.check_series import CheckSeries
    from flwr_kld.views.description import Description
    from flwr_kld.views.round_series import RoundSeries

__all__ = ["CheckSeries", "Description", "RoundSeries"]

__getattr__, __dir__ = on_request(__name__)


def view_of(report: Any) -> Any:
    """Return the view of a report: how it is printed, drawn, saved and made a frame."""
    from flwr_kld.planner.forecast import Forecast
    from flwr_kld.report.comparison import Comparison
    from flwr_kld.report.discovery_report import DiscoveryReport
    from flwr_kld.report.node_comparison import NodeComparison
    from flwr_kld.report.predictor_report import PredictorReport
    from flwr_kld.report.statistics_report import StatisticsReport
    from flwr_kld.report.survival import SurvivalCurves
    from flwr_kld.views.check_series import CheckSeries
    from flwr_kld.views.comparison import ComparisonView
    from flwr_kld.views.description import Description
    from flwr_kld.views.discovery import Discovery
    from flwr_kld.views.forecast import ForecastView
    from flwr_kld.views.node_comparison import NodeComparisonView
    from flwr_kld.views.round_series import RoundSeries
    from flwr_kld.views.survival import SurvivalView

    if isinstance(report, PredictorReport):
        return RoundSeries([report])
    views: dict[type, Any] = {
        StatisticsReport: Description,
        DiscoveryReport: Discovery,
        SurvivalCurves: SurvivalView,
        Comparison: ComparisonView,
        Forecast: ForecastView,
        NodeComparison: NodeComparisonView,
    }
    for kind, view in views.items():
        if isinstance(report, kind):
            return view(report)
    return CheckSeries([report])
