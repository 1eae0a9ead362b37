"""Reports: what a check says, as JSON, HTML and plots."""

from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.report.check_series import CheckSeries
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.reference_report import ReferenceReport
from flwr_kld.report.report import Report
from flwr_kld.report.round_series import RoundSeries
from flwr_kld.report.series import Point, Series
from flwr_kld.report.sight import who_saw_what

__all__ = [
    "CheckSeries",
    "Outcome",
    "Point",
    "PredictorReport",
    "ReferenceReport",
    "Report",
    "RoundSeries",
    "Series",
    "Verdict",
    "who_saw_what",
]
