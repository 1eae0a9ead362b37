"""Ways to look at reports: text, pages, plots, frames, metrics. Functions of what reports hold."""

from typing import TYPE_CHECKING, Any

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.views.check_series import CheckSeries
    from flwr_kld.views.description import Description
    from flwr_kld.views.round_series import RoundSeries
    from flwr_kld.views.survival import plot_survival

__all__ = ["CheckSeries", "Description", "RoundSeries", "plot_survival"]

__getattr__, __dir__ = on_request(__name__)


def view_of(report: Any) -> Any:
    """Return the view of a report: how it is printed, drawn, saved and made a frame."""
    from flwr_kld.report import discovery_report, predictor_report, statistics_report
    from flwr_kld.views.check_series import CheckSeries
    from flwr_kld.views.description import Description
    from flwr_kld.views.discovery import Discovery
    from flwr_kld.views.round_series import RoundSeries

    if isinstance(report, statistics_report.StatisticsReport):
        return Description(report)
    if isinstance(report, discovery_report.DiscoveryReport):
        return Discovery(report)
    if isinstance(report, predictor_report.PredictorReport):
        return RoundSeries([report])
    return CheckSeries([report])
