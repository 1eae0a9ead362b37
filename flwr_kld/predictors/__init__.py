"""Online predictors: learn which of K public hypotheses clients' labels follow.

Clients report one privatised label each; every report is private by itself, whatever the server
does with it. `BayesMixture` is the default, the paper's two algorithms are the baselines.

>>> from flwr_kld import Labels, Reference
>>> from flwr_kld.predictors import BayesMixture, Hypotheses, Intake, Report
>>> from flwr_kld.privacy import SystemBits
>>> colours = Labels(["red", "green"])
>>> usual, odd = (Reference.from_probabilities(colours, p) for p in ([0.9, 0.1], [0.2, 0.8]))
>>> predictor = BayesMixture(Hypotheses({"usual": usual, "odd": odd}), epsilon=1.0)
>>> intake = Intake(predictor, round=1)
>>> for client in map(str, range(500)):
...     query = predictor.query_of(1, client)  # public, and sent to the client, which answers:
...     symbol = predictor.query(query).answer(label=1, bits=SystemBits())
...     _ = intake.take(client, Report(query, symbol))
>>> for batch in intake.batches():
...     predictor.update(batch)
>>> predictor.leader.name
'odd'
"""

from flwr_kld.predictors.bayes_mixture import BayesMixture
from flwr_kld.predictors.designs import DESIGNS
from flwr_kld.predictors.hypotheses import Hypotheses, Hypothesis, drift_scenarios
from flwr_kld.predictors.intake import Intake, Rejection
from flwr_kld.predictors.laws import Laws
from flwr_kld.predictors.leader import Leader
from flwr_kld.predictors.local_exp3 import PureLocalEXP3
from flwr_kld.predictors.local_wma import LocallyPrivateWMA
from flwr_kld.predictors.predictor import Predictor
from flwr_kld.predictors.query import Query
from flwr_kld.predictors.report import Report, Reports
from flwr_kld.predictors.risk_bound import kl_risk_bound

__all__ = [
    "DESIGNS",
    "BayesMixture",
    "Hypotheses",
    "Hypothesis",
    "Intake",
    "Laws",
    "Leader",
    "LocallyPrivateWMA",
    "Predictor",
    "PureLocalEXP3",
    "Query",
    "Rejection",
    "Report",
    "Reports",
    "drift_scenarios",
    "kl_risk_bound",
]
