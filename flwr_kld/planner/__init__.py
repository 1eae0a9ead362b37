"""Forecasts what checks report, find and cost, before anything is asked or spent.

Examples
--------
>>> from flwr_kld import Labels, Reference
>>> reference = Reference.from_probabilities(Labels(["cat", "dog"]), [0.5, 0.5])
>>> from flwr_kld.trust.trusted import Trusted
>>> row = forecast(reference, Setting(clients=100, records=50, trust=Trusted(epsilon=1.0)))
>>> row.setting.total, round(row.noise, 1), row.setting.checks_per_person
(5000, 2.9, 365)
>>> 0.001 < row.smallest < 0.005
True
"""

from flwr_kld.planner.forecast import forecast
from flwr_kld.planner.setting import Setting

__all__ = ["Setting", "forecast"]
