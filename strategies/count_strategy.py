"""`CountStrategy`: what checks, descriptions and label discovery share: a cohort that counts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from flwr_kld.ask.cohort import AskedClients, Participant, draws
from flwr_kld.ask.noisy import noisy
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.arguments import integer
from flwr_kld.kernel.law import BitSource, SeededBits, SystemBits
from flwr_kld.kernel.selection import LabelSum
from flwr_kld.kernel.vector import LARGEST_CLIENT, ClearSum, NightNoise, Released, ShareSum
from flwr_kld.ledger import Charge, Cost
from flwr_kld.ledger.entry import Remembered
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.envelope import Envelope
from flwr_kld.report.parts import epsilon_delivered, protection
from flwr_kld.strategies.aggregation import Aggregation, failing, is_built_in
from flwr_kld.strategies.cohort_strategy import CohortStrategy
from flwr_kld.strategies.exchange import CountExchange, by_reason, require_answers
from flwr_kld.strategies.paid_round import PaidRound
from flwr_kld.strategies.standing_session import session_of
from flwr_kld.trust import Trust


class CountStrategy(CohortStrategy):
    """Asks a cohort for counts, under a trust model, by an aggregation.

    Parameters
    ----------
    most_records : int, optional
        Records that one client may count.
    options
        Those of `CohortStrategy`.
    """

    def __init__(
        self,
        trust: Trust,
        aggregation: Aggregation,
        *,
        most_records: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if most_records is not None:
            most_records = integer("most_records", most_records, least=1, most=LARGEST_CLIENT)
            if trust.guarantee.protects != "record":
                raise ValueError(
                    "most_records= is for protects='record': WholeClients(…) has its own"
                )
        if trust.source == "two-aggregators" and draws(self.cohort):
            raise ValueError(
                "TwoAggregators(…) cannot tell how alike the records of one client are, which a "
                "check of drawn clients needs: leave cohort out, so that all clients are asked"
            )
        self.trust = trust
        self.aggregation = aggregation
        self.most_records = most_records
        self._bits: BitSource = SystemBits()  # For noise that the server adds
        self._session = session_of(trust, self.budget, self.cohort, aggregation)
        self._session.refuse(most_records=most_records)

    def _seeded(self, seed: int) -> None:
        """Draw the server's noise from it, too: reports then say ``private: false``."""
        if seed != self._seed:
            self._bits = SeededBits(seed)
        super()._seeded(seed)

    @property
    def _fewest(self) -> int:
        return max(self.min_clients, self.trust.min_clients)

    def _lock(self) -> AbstractContextManager[None]:
        return self._session.lock(self.ledger)

    def _present(self, grid: Grid) -> list[Participant]:
        return self.aggregation.clients(super()._present(grid), grid, self.timeout)

    def _draw(self, grid: Grid) -> tuple[list[Participant], list[Participant]]:
        chosen, present = super()._draw(grid)
        keys = self.trust.aggregator_keys
        self.aggregation.prepare(chosen, grid, self.timeout, self._fewest, keys)
        self._session.advance(self.ledger)
        return chosen, present

    def _measure(
        self,
        paid: PaidRound,
        grid: Grid,
        asked: AskedClients,
        plan: QueryPlan,
        *,
        group: str = "1",
        model: ArrayRecord | None = None,
    ) -> CohortRelease:
        """Reserve what a question costs, ask it, and publish the noised counts."""
        states = self._session.begin(plan, len(asked.participants))
        paid.reserve(
            charge_of(self.trust, asked),
            states,
            session=self._session.key,
            # One of a user's own may send in ways of its own, and quote answers in its errors.
            asks_unseen=not is_built_in(self.aggregation),
        )
        exchange = CountExchange(
            grid=grid,
            chosen=asked.participants,
            plan=plan,
            check=paid.check,
            group=group,
            most_records=self.most_records or 0,
            trust=self._session.trust,
            timeout=self.timeout,
            bits=self._bits,
            model=model,
        )
        return publish(exchange, asked, self.aggregation, self._fewest)

    def _envelope(self, paid: PaidRound, measured: CohortRelease) -> dict[str, Any]:
        """Return what every report of counts says, whatever it concludes."""
        return {
            "started": paid.started,
            "guarantee": self.trust.guarantee,
            "protection": protection(
                measured.values,
                self.trust,
                self.aggregation.name,
                hides_parts=self.aggregation.hides_parts,
            ),
            "one_client": measured.one_client,
            "cohort": self._cohort_seen(
                len(measured.asked.participants),
                len(measured.counted),
                by_reason(measured.left_out),
                silent=measured.carried,
            ),
            "cost": paid.outlay(
                epsilon_delivered(measured.values.event),
                measured.traffic,
                night=self._session.night,
                nights=self._session.nights,
                delivered=self._session.delivered(measured.survivors),
            ),
        }

    def _settle(
        self,
        paid: PaidRound,
        report: Envelope,
        measured: CohortRelease,
        states: Sequence[Remembered] = (),
        *,
        repeatable: bool = False,
    ) -> bool:
        """Write a report, and what its release cost; see `PaidRound.settle`."""
        nightly, delivered = self._session.settled(measured.survivors)
        again = repeatable and self._session.repeatable
        return paid.settle(report, (*states, *nightly), delivered, repeatable=again)


def charge_of(trust: Trust, asked: AskedClients) -> Charge:
    """Return what is reserved before a check: its release at its dearest."""
    cost, least = trust.cost(), Cost.of(trust.event(trust.min_clients))
    if cost.protects != least.protects or cost.epsilon < least.epsilon or cost.delta < least.delta:
        raise ValueError(
            f"{type(trust).__name__}(…) charges {cost}, and its event costs {least}: leave cost as "
            "it is"
        )
    return Charge(cost, map(str, asked.participants))


def publish(
    exchange: CountExchange, asked: AskedClients, aggregation: Aggregation, least: int
) -> CohortRelease:
    """Ask a cohort once and publish its noised counts; `least` clients must be in the sum."""
    collected = aggregation.collect(exchange, least)
    answered = collected.total.clients - collected.carried
    require_answers(answered, least, collected.left_out)
    with failing():
        exchange.terms.require_in_time(time.time())
    released = _released(exchange, collected.total, collected.noise or exchange.bits)
    return CohortRelease(
        noisy(released, exchange.plan),
        asked=asked,
        survivors=collected.total.clients,
        left_out=collected.left_out,
        traffic=collected.traffic,
        most_records=exchange.terms.most_records,
        sizes=collected.sizes,
        enforces_limits=aggregation.enforces_limits,
        carried=collected.carried,
        terms=exchange.terms,
        released=released,
        signed=tuple(exchange.signed),
    )


def _released(
    exchange: CountExchange,
    total: ClearSum | LabelSum | ShareSum | Released,
    noise: BitSource | NightNoise,
) -> Released:
    trust = exchange.trust
    if isinstance(total, Released):
        return total
    if isinstance(total, ShareSum):  # less than zero by a lie of a client
        empty = total.records is not None and total.records <= 0
    else:
        empty = isinstance(total, ClearSum) and (
            total.layout.total_is_public(trust.guarantee) and total.is_empty(trust.guarantee)
        )
    if empty:
        raise CheckFailed("the cohort holds no records: nothing to compare")
    return trust.publish(total, exchange.plan, noise)
