"""`Publisher`: exchanges with a cohort, from the question to something public."""

from __future__ import annotations

import secrets
import time
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import AskedClients, Participant, UniformCohort, require_clients
from flwr_kld.ask.noisy import NoisyCounts, NoisyLabels, noisy
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.law import BitSource, SeededBits, SystemBits
from flwr_kld.kernel.selection import LabelSum
from flwr_kld.kernel.vector import ClearSum, NightNoise, Released, ShareSum
from flwr_kld.ledger import Charge
from flwr_kld.ledger.budget import Spent
from flwr_kld.ledger.entry import Remembered
from flwr_kld.report.envelope import Envelope
from flwr_kld.report.measured import Measured
from flwr_kld.report.parts import epsilon_delivered, protection
from flwr_kld.strategies.aggregation import Aggregation, failing, fitting
from flwr_kld.strategies.charges import charges
from flwr_kld.strategies.exchange import Exchange, by_reason, require_answers
from flwr_kld.strategies.round import Opening, R, Round, Settled
from flwr_kld.strategies.standing_session import Session
from flwr_kld.trust import Trust
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.terms import Night

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger


@dataclass(frozen=True)
class Publisher:
    """Asks cohorts and publishes their noised counts."""

    trust: Trust  # Who adds the noise, and how much
    aggregation: Aggregation  # How counts become a sum
    least: int  # Fewest clients in a sum
    bits: BitSource  # For noise that the server adds
    most_records: int = 0  # That a client may count, whatever is hidden; 0 for all

    def publish(
        self,
        grid: Grid,
        asked: AskedClients,
        plan: QueryPlan,
        *,
        check: str,
        group: str,
        timeout: float,
        model: ArrayRecord | None = None,
    ) -> Measured:
        """Ask a cohort once and publish its noised counts."""
        require_clients(len(asked.participants), self.least, "were drawn into the cohort")
        exchange = Exchange(
            grid=grid,
            chosen=asked.participants,
            plan=plan,
            check=check,
            group=group,
            most_records=self.trust.most_records or self.most_records,
            trust=self.trust,
            timeout=timeout,
            bits=self.bits,
            model=model,
        )
        collected = self.aggregation.collect(exchange, self.least)
        answered = collected.total.clients - collected.carried
        require_answers(answered, self.least, collected.left_out)
        with failing():
            exchange.terms.require_in_time(time.time())
        return Measured(
            self._released(collected.total, plan, collected.noise or self.bits),
            asked=asked,
            survivors=collected.total.clients,
            left_out=collected.left_out,
            traffic=collected.traffic,
            most_records=exchange.most_records,
            sizes=collected.sizes,
            holds_to_limits=self.aggregation.holds_to_limits,
            carried=collected.carried,
        )

    def _released(
        self,
        total: ClearSum | LabelSum | ShareSum | Released,
        plan: QueryPlan,
        noise: BitSource | NightNoise,
    ) -> NoisyCounts | NoisyLabels:
        if isinstance(total, Released):
            return noisy(total, plan)
        if not isinstance(total, LabelSum) and self._counts_nothing(total):
            raise CheckFailed("the cohort holds no records: nothing to compare")
        return noisy(self.trust.publish(total, plan, noise), plan)

    def _counts_nothing(self, total: ClearSum | ShareSum) -> bool:
        """Whether a public number of records is zero, or less by a lie in a secure sum."""
        if isinstance(total, ShareSum):
            return total.records is not None and total.records <= 0
        promised = self.trust.guarantee
        return total.layout.total_is_public(promised) and total.is_empty(promised)


Asked = tuple[AskedClients, QueryPlan, Trust]
"""Whom a check asks, for which cells, and under which noise."""


class Counting(Round[Asked, R]):
    """A round that asks for counts, through a publisher; of a standing session, one a night."""

    trust: Trust
    aggregation: Aggregation
    _publisher: Publisher
    _session: Session | None = None

    def _seeded(self, seed: int) -> None:
        """Draw the server's noise from it, too: reports then say ``private: false``."""
        if seed != self._seed:
            self._publisher = replace(self._publisher, bits=SeededBits(seed))
        super()._seeded(seed)

    def _stand(self, **refused: object) -> None:
        """Count nights if the trust model is that of a session; refuse what it is not asked for."""
        if not isinstance(self.trust, Standing):
            return
        if not isinstance(self.cohort, UniformCohort) or self.cohort.size is not None:
            raise ValueError(
                "a standing session asks all clients, on every night: leave cohort= out"
            )
        if self.aggregation.name not in ("plain-sum", "sealed-sum", "split-sum"):
            raise ValueError("a standing session goes with PlainSum(), or with aggregators")
        for name, given in refused.items():
            if given is not None:
                raise ValueError(
                    f"a standing session counts all records as they are: leave {name}= out"
                )
        self._session = Session(self.trust, self.budget)

    def _alone(self) -> AbstractContextManager[None]:
        if self.ledger is None or self._session is None:
            return super()._alone()
        return self.ledger.running(self._session.name)

    def _recall(self, ledger: Ledger, present: list[Participant]) -> None:
        super()._recall(ledger, present)
        if self._session is not None:
            self._session.recall(ledger)

    def _tonight(self) -> Trust:
        """Return the trust model; of a session, on the night that is next."""
        trust = self.trust
        if self._session is None or not isinstance(trust, Standing):
            return trust
        if trust.source == "trusted":
            trust.kept()  # now, as nothing is paid for yet
        return trust.on(self._session.tonight())

    def _require_session(self, plan: QueryPlan, trust: Trust, asked: int) -> None:
        """Refuse a night that asks for something else than its session's first one did."""
        if self._session is not None:
            self._session.require(trust.terms(plan, check="tonight", asked=asked, until=0))

    def _begun(self, asked: Asked) -> Sequence[Remembered]:
        clients, plan, trust = asked
        if self._session is None or _night_of(trust) is None:
            return ()
        terms = trust.terms(plan, check="tonight", asked=len(clients.participants), until=0)
        return (self._session.begun(terms),)

    def _session_of(self, asked: Asked) -> str:
        night = _night_of(asked[-1])
        return night.session if night else ""

    def _charges(self, asked: Asked) -> list[Charge]:
        return charges(self.trust, asked[0])

    def _settled(
        self,
        report: R,
        asked: Asked,
        states: Sequence[Remembered],
        survivors: int,
    ) -> Settled[R]:
        """Return what is written of a report: of a night, that it was released."""
        told = cast(Envelope, report)
        if self._session is not None:
            return Settled(report, told, (*states, self._session.released()))
        return Settled(report, told, states, [self.trust.cost(survivors)])

    def _about(
        self, measured: Measured, asked: Asked, opening: Opening, spent: Spent | None
    ) -> dict[str, Any]:
        """Return what every report of counts says, whatever it concludes."""
        shown, night = measured.values, _night_of(asked[-1])
        epsilon = epsilon_delivered(shown.event)
        cost = self._cost(opening, spent, epsilon=epsilon, traffic=measured.traffic)
        seen = self._seen(
            len(measured.asked.participants), len(measured.counted), by_reason(measured.left_out)
        )
        return {
            "started": opening.started,
            "guarantee": self.trust.guarantee,
            "protection": protection(
                shown,
                self.trust,
                self.aggregation.name,
                hides_parts=self.aggregation.hides_parts,
            ),
            "one_client": measured.one_client,
            "cohort": replace(seen, silent=measured.carried),
            "cost": replace(cost, night=night.number, nights=night.nights) if night else cost,
        }

    @property
    def _least(self) -> int:
        return self._publisher.least

    def _present(self, grid: Grid) -> list[Participant]:
        return self.aggregation.clients(super()._present(grid), grid, self.timeout)

    def _prepare(self, grid: Grid, chosen: list[Participant]) -> None:
        keys = self.trust.aggregator_keys
        self.aggregation.prepare(chosen, grid, self.timeout, self._least, keys)


def _night_of(trust: Trust) -> Night | None:
    return trust.night if isinstance(trust, Standing) else None


class Question(Counting[R]):
    """A round of one exchange, whose counts are compared with nothing.

    The trust model is bound to as many columns as are asked for; `most_records` of a client are
    counted, 0 for no limit but the usual one.
    """

    def __init__(
        self,
        trust: Trust,
        aggregation: Aggregation | None,
        most_records: int = 0,
        **round_options: Any,
    ) -> None:
        self.trust, self.aggregation = trust, fitting(trust, aggregation)
        super().__init__(**round_options)
        least = max(self.min_clients, trust.min_clients)
        self._publisher = Publisher(trust, self.aggregation, least, SystemBits(), most_records)

    def ask(self, grid: Grid, key: str | None = None) -> R:
        """Ask now.

        Parameters
        ----------
        key : str, optional
            Idempotency key: with a ledger it runs once.

        Raises
        ------
        CheckFailed
            If too few clients are there or reply; what the ledger reserved is spent, unless all of
            them refused.
        LedgerError
            If the ledger does not let it start. Nothing was asked.
        """
        return self._run(grid, key or f"{self.entry}/{secrets.token_hex(8)}")

    @abstractmethod
    def _told(
        self, measured: Measured, key: str, about: dict[str, Any]
    ) -> tuple[R, Sequence[Remembered]]:
        """Make the report of what was released, and return what is to be remembered.

        `about` has what every report of a question says: its envelope, and its protection.
        """

    @abstractmethod
    def _question(self, chosen: list[Participant], present: int) -> tuple[AskedClients, QueryPlan]:
        """Say whom of those present is asked, for which cells."""

    def _draw(self, chosen: list[Participant], present: list[Participant]) -> Asked:
        trust, (clients, plan) = self._tonight(), self._question(chosen, len(present))
        self._require_session(plan, trust, len(chosen))
        return clients, plan, trust

    def _ask(
        self,
        grid: Grid,
        opening: Opening,
        asked: Asked,
        spent: Spent | None,
    ) -> Settled[R]:
        clients, plan, trust = asked
        measured = replace(self._publisher, trust=trust).publish(
            grid,
            clients,
            plan,
            check=opening.check,
            group="1",
            timeout=self.timeout,
        )
        about = self._about(measured, asked, opening, spent)
        report, states = self._told(measured, opening.name, about)
        return self._settled(report, asked, states, measured.survivors)
