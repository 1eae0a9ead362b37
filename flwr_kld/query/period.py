"""How the period of one check follows that of the last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flwr_kld.errors import CheckFailed
from flwr_kld.kernel.arguments import keep, whole
from flwr_kld.query.selection import Period, check_column

_MOST_DAYS = 3650


@dataclass(frozen=True)
class SinceLastCheck:
    """Whole days, in UTC, since the period of the last check that gave a report.

    Parameters
    ----------
    column : str
        Column of the records that says when they came.
    lag : int
        Days that late records have to arrive: with 1, a check on 10 March ends before the 9th.
    first : int
        Days of the first period, before which no check is known. Default 1.

    Raises
    ------
    ValueError
        If one is none of these.
    """

    column: str
    lag: int = 0
    first: int = 1

    def __post_init__(self) -> None:
        check_column(self.column)
        keep(
            self,
            lag=whole("lag", self.lag, least=0, most=_MOST_DAYS, unit="days"),
            first=whole("first", self.first, least=1, most=_MOST_DAYS, unit="days"),
        )

    def next(self, last: Period | None, now: datetime | None = None) -> Period:
        """Return the period after the last one; `CheckFailed` if no day of it is over."""
        today = (now or datetime.now(UTC)).astimezone(UTC).date() - timedelta(days=self.lag)
        start, end = str(today - timedelta(days=self.first)), str(today)
        if last is not None and last.column == self.column:
            start = last.end
        if datetime.fromisoformat(start) >= datetime.fromisoformat(end):
            raise CheckFailed(
                f"no whole day has passed since the last check's period ended, at {start} in "
                f"{self.column}: nobody was asked"
            )
        return Period(self.column, start, end)
