"""`CohortStrategy`: who may be asked, and at whose expense; what all strategies have in common."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Cohort, Participant, UniformCohort, require_clients
from flwr_kld.kernel.arguments import finite, instance, integer
from flwr_kld.kernel.law import SystemBits
from flwr_kld.ledger import Kind
from flwr_kld.report.envelope import CohortSummary
from flwr_kld.strategies.paid_round import PaidRound
from flwr_kld.strategies.population import Nodes, Population, nodes_left_out

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger


def check_timeout(timeout: float) -> float:
    """Return a wait as Python's number; ValueError unless it is positive and finite."""
    return finite("timeout", timeout, above=0, unit="seconds")


def opened(ledger: Ledger | str) -> Ledger:
    """Return a ledger, by itself or by its URL."""
    from flwr_kld.ledger import Ledger  # imported here: who keeps none needs no database

    if isinstance(ledger, str):
        return Ledger(ledger)
    return instance("ledger", ledger, Ledger, "a Ledger or its URL, such as 'sqlite:///drift.db'")


class CohortStrategy:
    """Asks a cohort in rounds that are paid for; the parameters are those of `KLDrift`."""

    entry: ClassVar[Kind]
    """What its rounds are in a ledger."""
    _seed: int | None = None

    def __init__(
        self,
        *,
        cohort: Cohort | None,
        population: Population | None,
        min_clients: int,
        timeout: float,
        ledger: Ledger | str | None,
        budget: str,
    ) -> None:
        if cohort is not None:
            instance("cohort", cohort, Cohort, "a cohort rule, such as UniformCohort(100)")
        if population is not None:
            instance("population", population, Population, "a population, such as HostedClients()")
        self.cohort = cohort or UniformCohort()
        self.population = population or Nodes()
        self.min_clients = integer("min_clients", min_clients, least=1, unit="clients")
        self.timeout = check_timeout(timeout)
        instance("budget", budget, str, "the name of a population with a budget in the ledger")
        self.ledger = None if ledger is None else opened(ledger)
        if self.ledger is not None:
            self.ledger.budget(budget)  # without one nothing could ever be asked
        self.budget = budget
        self._generator = np.random.default_rng(SystemBits().words(4))

    def _seeded(self, seed: int) -> None:
        """Draw from a seed, in simulations only; who draws from it already goes on."""
        if seed != self._seed:
            self._seed, self._generator = seed, np.random.default_rng(seed)

    def _paid_round(self, key: str | None = None) -> AbstractContextManager[PaidRound]:
        """Return a round to run in a ``with`` statement: draw, reserve, ask, settle."""
        return PaidRound(self.ledger, self.budget, self.entry, key).running(self._lock())

    def _lock(self) -> AbstractContextManager[None]:
        """Return what is held during a round."""
        return nullcontext()

    def _draw(self, grid: Grid) -> tuple[list[Participant], list[Participant]]:
        """Return the cohort of a round, and the clients that it was drawn from."""
        present = self._present(grid)
        require_clients(len(present), self._fewest, "are connected")
        if self.ledger is not None:
            self.cohort.recall(partial(self.ledger.last_asked, population=self.budget), present)
        chosen = self.cohort.draw(present, self._generator)
        require_clients(len(chosen), self._fewest, "were drawn into the cohort")
        return chosen, present

    @property
    def _fewest(self) -> int:
        """Fewest clients that are asked."""
        return self.min_clients

    def _present(self, grid: Grid) -> list[Participant]:
        """Return the clients that are connected."""
        return self.population.present(grid, self.timeout)

    def _cohort_seen(
        self, asked: int, survivors: int, left_out: Mapping[str, int], silent: int = 0
    ) -> CohortSummary:
        """Return what a report says of its cohort; `left_out` counts clients by reason."""
        left_out = {**left_out, **nodes_left_out(self.population)}
        return CohortSummary(asked, survivors, left_out, silent)
