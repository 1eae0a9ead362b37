"""Reports: what a check, a round or a description found, and how that follows from releases."""

from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.infer.verdict import Outcome, Verdict
    from flwr_kld.report.candidates import BestCandidate, best_candidate
    from flwr_kld.report.survival import Survival

__all__ = [
    "BestCandidate",
    "Outcome",
    "Survival",
    "Verdict",
    "best_candidate",
]

__getattr__, __dir__ = on_request(__name__)
