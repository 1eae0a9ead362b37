"""What became of an alert. A failed one is a line in a log, and never the end of a check."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Delivery:
    """One alert, sent or not."""

    alert: str  # Name of the alert, without secrets
    delivered: bool  # Whether the receiver accepted it
    detail: str  # Its answer, or why there was none
    attempts: int = 1  # How often it was tried
