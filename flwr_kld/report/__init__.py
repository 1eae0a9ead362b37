"""Reports: what a check says, as JSON, HTML and plots."""

from flwr_kld.report.history import Check, save_csv, save_json
from flwr_kld.report.html import save_html
from flwr_kld.report.plot import plot_history
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.report import Report
from flwr_kld.report.sight import who_saw_what
from flwr_kld.report.verdict import Outcome, Verdict

__all__ = [
    "Check",
    "Outcome",
    "PredictorReport",
    "Report",
    "Verdict",
    "plot_history",
    "save_csv",
    "save_html",
    "save_json",
    "who_saw_what",
]
