"""What checks will tell, find and cost, before anything is asked or spent.

>>> from flwr_kld import Labels, Reference
>>> reference = Reference.from_probabilities(Labels(["cat", "dog"]), [0.5, 0.5])
>>> from flwr_kld.trust import Trusted
>>> row = forecast(reference, Setting(clients=100, records=50, trust=Trusted(epsilon=1.0)))
>>> row.counted, round(row.noise, 1), row.checks_per_person
(2500, 2.8, 365)
>>> 0.001 < row.smallest < 0.005
True
"""

from flwr_kld.planner.files import save_csv, save_json, save_plot
from flwr_kld.planner.forecast import Forecast, forecast, plan
from flwr_kld.planner.setting import Setting, design_effect_of

__all__ = [
    "Forecast",
    "Setting",
    "design_effect_of",
    "forecast",
    "plan",
    "save_csv",
    "save_json",
    "save_plot",
]
