"""Reports: what a check says, as JSON, HTML and plots."""

from flwr_kld.inference.verdict import Outcome, Verdict
from flwr_kld.report.check_series import CheckSeries
from flwr_kld.report.mlflow import log_to_mlflow
from flwr_kld.report.round_series import RoundSeries

__all__ = ["CheckSeries", "Outcome", "RoundSeries", "Verdict", "log_to_mlflow"]
