"""Reports: what a check says, as JSON, HTML and plots."""

from typing import TYPE_CHECKING

from flwr_kld._extras import on_request

if TYPE_CHECKING:
    from flwr_kld.inference.verdict import Outcome, Verdict
    from flwr_kld.report.candidates import BestCandidate, best_candidate
    from flwr_kld.report.check_series import CheckSeries
    from flwr_kld.report.round_series import RoundSeries
    from flwr_kld.report.survival import Survival

__all__ = [
    "BestCandidate",
    "CheckSeries",
    "Outcome",
    "RoundSeries",
    "Survival",
    "Verdict",
    "best_candidate",
]

__getattr__, __dir__ = on_request(__name__)
