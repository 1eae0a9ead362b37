"""Ask a cohort for its counts and add them up in the clear, at a trusted server."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.kernel.vector import NO_RECORDS, ClearSum
from flwr_kld.report.report import some_of
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, Exchange

logger = logging.getLogger("flwr_kld")


class PlainSum:
    """The server receives each client's exact counts and adds them up."""

    name = "plain-sum"
    hides_parts = False
    holds_to_limits = True
    adds_noise = False

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
        cohort, promised = CohortReplies(exchange), exchange.terms.guarantee
        clear = ClearSum.of_answers(
            cohort.read(),
            exchange.plan.layout,
            promised,
            exchange.bits,
            most=exchange.clip,
            # Of a part of its records a small client may well have none.
            empty=not (promised.total_is_public and exchange.plan.selection.takes_all),
        )
        for participant, why in clear.refused.items():
            cohort.refuse(participant, why if why == NO_RECORDS else f"invalid reply: {why}")
        if none := [str(p) for p, why in clear.refused.items() if why == NO_RECORDS]:
            logger.warning("these clients have no records: %s", some_of(none))
        down, up = cohort.traffic
        return Collected(clear, cohort.left_out, bytes_down=down, bytes_up=up, limit=clear.limit)
