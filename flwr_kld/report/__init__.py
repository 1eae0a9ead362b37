"""Reports: what a check says, as JSON, HTML and plots."""

from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.report.history import Check, save_csv, save_json
from flwr_kld.report.html import save_html
from flwr_kld.report.plot import plot_history
from flwr_kld.report.predictor_history import Round, save_rounds_csv, save_rounds_json
from flwr_kld.report.predictor_html import save_predictor_html
from flwr_kld.report.predictor_plot import plot_rounds
from flwr_kld.report.predictor_report import PredictorReport
from flwr_kld.report.reference_report import ReferenceReport
from flwr_kld.report.report import Report
from flwr_kld.report.sight import who_saw_what

__all__ = [
    "Check",
    "Outcome",
    "PredictorReport",
    "ReferenceReport",
    "Report",
    "Round",
    "Verdict",
    "plot_history",
    "plot_rounds",
    "save_csv",
    "save_html",
    "save_json",
    "save_predictor_html",
    "save_rounds_csv",
    "save_rounds_json",
    "who_saw_what",
]
