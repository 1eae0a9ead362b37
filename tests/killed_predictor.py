"""A predictor's rounds in a process that notes each report it learns, and kills itself."""

import json
import os
import signal

from federation import FRUIT, REFERENCE, basket, grid_of
from flwr.clientapp import ClientApp

from flwr_kld import Reference
from flwr_kld.clients import answer_predictor_queries
from flwr_kld.predictors import BayesMixture, Hypotheses
from flwr_kld.predictors.tally import LocalReports
from flwr_kld.strategies import PrivatePredictor, private_predictor
from flwr_kld.strategies.paid_round import PaidRound

NODES, REMEMBERED = 12, 2
TURNED = Reference.from_probabilities(FRUIT, [0.1, 0.2, 0.3, 0.4])


def mixture(kind: type[BayesMixture] = BayesMixture) -> BayesMixture:
    candidates = Hypotheses({"as the reference": REFERENCE, "turned round": TURNED})
    return kind(candidates, epsilon=1.0)


class Noted(BayesMixture):
    """Writes every batch down before it is learnt."""

    notes: str

    def update(self, reports: LocalReports) -> None:
        line = [reports.round, reports.queries.tolist(), reports.symbols.tolist()]
        with open(self.notes, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())
        super().update(reports)


def run(url: str, notes: str, dies_in: int, when: str) -> None:
    """Go on until the round in which to die, when it is `asked`, `learnt` or `settled`."""
    Noted.notes = notes
    learning = PrivatePredictor(mixture(Noted), ledger=url)
    private_predictor._REMEMBERED = REMEMBERED

    def die(at: str) -> bool:
        if (learning.rounds, at) == (dies_in, when):
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    settle = PaidRound.settle

    def settle_or_die(paid: PaidRound, *arguments: object) -> bool:
        die("learnt")
        settled = settle(paid, *arguments)
        die("settled")
        return settled

    PaidRound.settle = settle_or_die
    app = ClientApp()
    answer_predictor_queries(app, basket, FRUIT)
    grid = grid_of(app, NODES, lose=lambda _: die("asked"))
    while True:
        learning.ask(grid)
