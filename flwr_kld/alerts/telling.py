"""Tell each receiver once that a thing began, and once that it is over, and nobody at night."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, time
from zoneinfo import ZoneInfo

from flwr_kld.accounting import Ledger
from flwr_kld.accounting.states import Remembered
from flwr_kld.alerts.delivery import Delivery
from flwr_kld.alerts.notice import About, Notice
from flwr_kld.alerts.receivers import Receiver

logger = logging.getLogger("flwr_kld")


@dataclass(frozen=True)
class Quiet:
    """Hours in which only what is urgent is told; the rest follows if it still holds then."""

    begin: time  # Of each day; they may lie on either side of midnight
    end: time
    zone: ZoneInfo  # Whose clock
    urgent: frozenset[About] = frozenset({About.DRIFT})  # What is told at any time

    def silences(self, about: About, now: datetime) -> bool:
        """Whether nobody is told of this now."""
        clock = now.astimezone(self.zone).time()
        inside = (
            self.begin <= clock < self.end
            if self.begin <= self.end
            else clock >= self.begin or clock < self.end
        )
        return inside and about not in self.urgent


@dataclass(frozen=True)
class Addressee:
    """A receiver, and what it wants to know."""

    name: str  # By which the ledger remembers what it was told
    receiver: Receiver  # Takes the notices
    about: frozenset[About] = frozenset(About)  # What it is told


def tell(
    ledger: Ledger,
    population: str,
    notices: Iterable[Notice],
    addressees: Iterable[Addressee],
    *,
    quiet: Quiet | None,
    now: datetime,
) -> list[Delivery]:
    """Deliver what an addressee does not know yet; the ledger remembers who knows what.

    What could not be delivered is tried again the next time.
    """
    kept = ledger.state(_state(population)) or Remembered(_state(population), {})
    knows: dict[str, list[str]] = dict(kept.value)
    addressees, deliveries = tuple(addressees), []
    for notice in notices:
        if quiet is not None and quiet.silences(notice.about, now):
            continue
        told = set(knows.get(notice.about, ()))
        for one in addressees:
            if notice.about not in one.about or (one.name in told) != notice.over:
                continue
            delivery = _deliver(one, notice)
            deliveries.append(delivery)
            if delivery.delivered:
                told ^= {one.name}
        knows[str(notice.about)] = sorted(told)
    knows = {about: names for about, names in knows.items() if names}
    if knows != kept.value:
        ledger.keep_state(replace(kept, value=knows))
    return deliveries


def told(ledger: Ledger, population: str) -> Mapping[str, list[str]]:
    """Return who was told of what that has not ended for them."""
    kept = ledger.state(_state(population))
    return {} if kept is None else dict(kept.value)


def _state(population: str) -> str:
    return f"{population}/told"


def _deliver(one: Addressee, notice: Notice) -> Delivery:
    try:
        delivery = replace(one.receiver.take(notice), alert=one.name)
    except Exception as error:  # whatever it is, the others are told
        logger.exception("alert %s of %s broke", one.name, notice.key)
        return Delivery(one.name, False, type(error).__name__)
    if not delivery.delivered:
        logger.error("alert %s of %s not delivered: %s", one.name, notice.key, delivery.detail)
    return delivery
