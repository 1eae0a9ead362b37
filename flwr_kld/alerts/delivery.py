"""What became of an alert. A failed one is a line in a log, and never the end of a check."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from flwr_kld.report.report import Report

logger = logging.getLogger("flwr_kld")


@dataclass(frozen=True)
class Delivery:
    """One alert, sent or not.

    Parameters
    ----------
    alert : str
        Name of the alert, without secrets.
    delivered : bool
        Whether the receiver accepted it.
    detail : str
        Its answer, or why there was none.
    attempts : int
        How often it was tried.
    """

    alert: str
    delivered: bool
    detail: str
    attempts: int = 1


class Alert(Protocol):
    """A way to tell somebody."""

    @property
    def name(self) -> str:
        """Name in logs, without secrets."""
        ...

    def send(self, report: Report) -> Delivery:
        """Tell them; failures that can be expected are returned, not raised."""
        ...


def send_alerts(alerts: Iterable[Alert], report: Report) -> list[Delivery]:
    """Send a report by every alert. Never raises: failures are logged and returned."""
    return [_send(alert, report) for alert in alerts]


def _send(alert: Alert, report: Report) -> Delivery:
    try:
        delivery = alert.send(report)
    except Exception as error:  # whatever it is, the report matters more
        logger.exception("alert %s of check %s broke", alert.name, report.check)
        return Delivery(alert.name, False, type(error).__name__)
    if not delivery.delivered:
        logger.error(
            "alert %s of check %s was not delivered: %s", alert.name, report.check, delivery.detail
        )
    return delivery
