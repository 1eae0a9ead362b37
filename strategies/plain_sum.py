"""Ask a cohort for its counts and add them up in the clear, at a trusted server."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.kernel.vector import (
    LARGEST_CLIENT,
    ClearSum,
    ClientCounts,
    ClientVector,
    vector_from_wire,
)
from flwr_kld.report.report import some_of
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, Exchange

logger = logging.getLogger("flwr_kld")

NO_RECORDS = "it has no records"


class PlainSum:
    """The server receives each client's exact counts and adds them up."""

    name = "plain-sum"
    hides_parts = False
    """Whether the server sees sums only."""
    holds_to_limits = True
    """Whether somebody sees each client's numbers, and holds them to what one may answer."""
    adds_noise = False
    """Whether sums reach the server with their noise."""

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody: no node has another role."""
        return present

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Need nobody but the cohort."""

    def collect(self, exchange: Exchange, least: int) -> Collected:
        """Send the terms, wait, and sum every valid row of numbers.

        Parameters
        ----------
        least : int
            Checked by the caller: the server sees the survivors.
        """
        cohort, taken = CohortReplies(exchange), _Taken(exchange)
        clear = ClearSum.of_clients(
            taken.read(cohort),
            exchange.plan.layout,
            exchange.terms.guarantee,
            exchange.bits,
            most=exchange.clip,
        )
        if taken.empty:
            logger.warning("these clients have no records: %s", some_of(taken.empty))
        down, up = cohort.traffic
        left_out = cohort.left_out(taken.counted)
        return Collected(clear, left_out, bytes_down=down, bytes_up=up, limit=clear.limit)


class _Taken:
    """Holds each participant's numbers to what it was asked."""

    def __init__(self, exchange: Exchange) -> None:
        self._plan, self._guarantee = exchange.plan, exchange.terms.guarantee
        # Of a part of its records a small client may well have none.
        self._tells_sizes = self._guarantee.total_is_public and self._plan.selection.takes_all
        self._most = exchange.clip or LARGEST_CLIENT
        self.counted: set[Participant] = set()
        self.empty: list[str] = []
        """Who has no records, as far as that is public."""

    def read(self, cohort: CohortReplies) -> Iterator[tuple[str, ClientVector]]:
        """Yield the name and the numbers of every participant that answered properly."""
        layout = self._plan.layout
        for participant, row in cohort.read():
            try:
                numbers = vector_from_wire(row, layout, self._guarantee, most=self._most)
            except InvalidReply as error:
                cohort.refuse(participant, f"invalid reply: {error}")
                continue
            if (
                self._tells_sizes
                and isinstance(numbers, ClientCounts)
                and numbers.is_empty(self._guarantee)
            ):
                cohort.refuse(participant, NO_RECORDS)
                self.empty.append(str(participant))
            else:
                self.counted.add(participant)
                yield str(participant), numbers
