"""Online predictors: learn which of K public hypotheses clients' labels follow.

Clients report one privatised label each; every report is private by itself, whatever the server
does with it.

Examples
--------
>>> from flwr_kld import Labels, Reference
>>> from flwr_kld.predictors import BayesMixture, Hypotheses
>>> from flwr_kld.predictors.bayes_mixture import Intake
>>> from flwr_kld.kernel.law import SystemBits
>>> colours = Labels(["red", "green"])
>>> usual, odd = (Reference.from_probabilities(colours, p) for p in ([0.9, 0.1], [0.2, 0.8]))
>>> predictor = BayesMixture(Hypotheses({"usual": usual, "odd": odd}), epsilon=1.0)
>>> intake = Intake(predictor, round=1)
>>> for client in map(str, range(500)):
...     query = predictor.query_of(1, client)  # public, and sent to the client, which answers:
...     symbol = predictor.query(query).answer(label=1, bits=SystemBits())
...     _ = intake.take(client, query, symbol)
>>> predictor.update(intake.reports())
>>> predictor.leader.name
'odd'
"""

from flwr_kld.predictors.bayes_mixture import BayesMixture
from flwr_kld.predictors.hypotheses import Hypotheses

__all__ = ["BayesMixture", "Hypotheses"]
