"""DP-FedAvg's rounds in the budget that checks are charged to: Flower's accountant, on a ledger."""

from __future__ import annotations

import logging
import math
import secrets
from typing import TYPE_CHECKING

from flwr.app import ConfigRecord
from flwr.serverapp import (
    GaussianPrivacyEvent,
    Grid,
    NeighboringRelation,
    PrivacyConfig,
    PrivacySpent,
    SamplingMethod,
)
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideFixedClipping,
)

from flwr_kld.ask.cohort import Participant
from flwr_kld.kernel.arguments import instance
from flwr_kld.ledger import Budget, BudgetExhausted, Charge, Cost, Kind
from flwr_kld.ledger.cost import ROUNDS
from flwr_kld.ledger.entry import Failure, FailureKind
from flwr_kld.strategies.cohort_strategy import opened
from flwr_kld.trust.envelopes import CLAIMED_NOISE

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger
    from flwr_kld.ledger.reservations import Reservation

logger = logging.getLogger("flwr.kld")


_FixedClipping = (
    DifferentialPrivacyServerSideFixedClipping | DifferentialPrivacyClientSideFixedClipping
)


def noise_claim(training: _FixedClipping) -> ConfigRecord:
    """Return what tells guarded nodes (`guard_training`) the noise of Flower's fixed clipping.

    As ``training.start(…, train_config=noise_claim(training))``, with `WithDriftChecks` too;
    ``ConfigRecord({"lr": 0.1, **noise_claim(training)})`` sends values of your own beside it.
    """
    instance("training", training, _FixedClipping, "Flower's strategy with fixed clipping")
    return ConfigRecord({CLAIMED_NOISE: float(training.noise_multiplier)})


class LedgerAccountant:
    """Charge each round of Flower's fixed clipping to a ledger, before its messages leave.

    ``DifferentialPrivacyServerSideFixedClipping(FedAvg(), …, accountant=LedgerAccountant(…))``. A
    round that does not fit the budget never starts: Flower raises `PrivacyBudgetExhausted`.
    What is assumed of the training: ``docs/proofs/training.md``.

    Parameters
    ----------
    ledger : Ledger or str
        That the checks are charged to, or its database's URL.
    grid : Grid
        All nodes that it has shown are charged for a round, as any may have been drawn.
    budget : str
        Name of the population whose budget is charged. If it is for each client, a round costs what
        Flower says; if for each record, as much as with half the noise.

    Raises
    ------
    LedgerError
        If the ledger has no such budget, or cannot be written.
    ValueError
        If the budget's delta is 0, which Gaussian noise never keeps.
    """

    def __init__(self, ledger: Ledger | str, grid: Grid, budget: str = "default") -> None:
        self.ledger = opened(ledger)
        self.budget = instance("budget", budget, str, "the name of a population with a budget")
        self._grid = instance("grid", grid, Grid, "the ServerApp's grid")
        if not (in_force := self._in_force()).delta:
            raise ValueError(f"Gaussian noise keeps no delta = 0, which the budget {budget!r} has")
        if in_force.composition == "pld":
            logger.warning(
                "the budget %r holds for a schedule that is fixed in advance: where reports decide "
                "whether to train, set composition='renyi'",
                budget,
            )
        self._nodes: set[int] = set()
        self._asked: tuple[GaussianPrivacyEvent, Reservation] | None = None
        self._run, self._round = secrets.token_hex(4), 0
        self.num_releases = 0
        """Rounds whose model was released, since this object was made."""

    @property
    def config(self) -> PrivacyConfig:
        """The budget in force, in Flower's terms."""
        budget = self._in_force()
        return PrivacyConfig(
            target_delta=budget.delta,
            population_size=max(len(self._seen()), 1),
            neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=SamplingMethod.NO_AMPLIFICATION,
            max_epsilon=float(budget.limit("training")),
        )

    def would_exceed(
        self, event: GaussianPrivacyEvent, max_epsilon: float | None = None, count: int = 1
    ) -> bool:
        """Reserve a round; return whether there was no room for it. Flower asks once a round.

        A round that was reserved before and released no model stays spent: clients were asked.
        """
        if max_epsilon is not None or count != 1:
            raise ValueError("a ledger reserves one round at a time, within its own budget")
        if self._asked is not None:
            silent = Failure(FailureKind.UNANSWERED, "the round released no model")
            self.ledger.fail(self._asked[1], silent)
            self._asked = None
        budget, self._round = self._in_force(), self._round + 1
        cost = Cost.training(event.noise_multiplier, budget.delta / ROUNDS, budget.protects)
        charge = Charge(cost, [str(Participant(node)) for node in sorted(self._seen())])
        key, kind = f"training/{self._run}/{self._round}", Kind.TRAINING
        try:
            reserved = self.ledger.reserve(key, charge, kind=kind, population=self.budget)
        except BudgetExhausted as error:
            logger.warning("no further round of training: %s", error)
            why = Failure.unasked(error)
            self.ledger.refuse(key, why, kind=kind, population=self.budget)
            return True
        self._asked = event, reserved
        return False

    def compose(self, event: GaussianPrivacyEvent, count: int = 1) -> None:
        """Settle the round that was reserved; its noised model is released next."""
        if self._asked is None or self._asked[0] != event or count != 1:
            raise ValueError("a round is reserved by would_exceed(event) before it is composed")
        report = {
            "schema": 1,
            "kind": "training",
            "noise_multiplier": event.noise_multiplier,
            "clients": event.sample_size,
        }
        self.ledger.settle(self._asked[1], report)
        self._asked, self.num_releases = None, self.num_releases + 1

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """Return what the most-charged person has spent in the budget's window, checks included."""
        spent = self.ledger.spent(self.budget)
        known = delta is None or delta >= spent.budget.delta
        return PrivacySpent(
            epsilon=spent.epsilon if known else math.inf,
            delta=spent.budget.delta if delta is None else delta,
            num_releases=self.num_releases,
            accounting_method=f"ledger ({spent.composition})",
        )

    def get_epsilon(self, delta: float) -> float:
        """Return an upper bound of epsilon: infinite below the budget's delta."""
        return self.get_privacy_spent(delta).epsilon

    def get_delta(self, epsilon: float) -> float:
        """Return an upper bound of delta: 1 below the epsilon that is spent."""
        spent = self.get_privacy_spent()
        return spent.delta if epsilon >= spent.epsilon else 1.0

    def state_dict(self) -> dict[str, object]:
        """Return nothing: what is spent is in the ledger."""
        return {}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Accept what `state_dict` returns; what another accountant kept cannot be restored."""
        if state:
            raise ValueError(
                "a ledger has no state to restore; lower its budget by what was spent elsewhere"
            )

    def _in_force(self) -> Budget:
        return self.ledger.budget(self.budget)

    def _seen(self) -> set[int]:
        """Return all nodes that were connected when any round was asked."""
        self._nodes |= set(self._grid.get_node_ids())
        return self._nodes
