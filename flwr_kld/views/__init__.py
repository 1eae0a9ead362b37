"""Ways to look at reports: text, pages, plots, frames, metrics. Functions of what reports hold."""

from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.views.check_series import CheckSeries
    from flwr_kld.views.description import Description
    from flwr_kld.views.round_series import RoundSeries
    from flwr_kld.views.survival import plot_survival

__all__ = ["CheckSeries", "Description", "RoundSeries", "plot_survival"]

__getattr__, __dir__ = on_request(__name__)
