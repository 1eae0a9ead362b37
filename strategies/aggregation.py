"""How clients' counts become a sum: the plain way, and which way a trust model needs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, runtime_checkable

from flwr.serverapp import Grid

from flwr_kld.ask.cohort import Participant
from flwr_kld.common.errors import CheckFailed, QueryRefused, SessionMismatch, SessionOver
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.selection import LabelSum
from flwr_kld.kernel.vector import NO_RECORDS, ClearSum
from flwr_kld.strategies.cohort_replies import CohortReplies
from flwr_kld.strategies.exchange import Collected, CountExchange
from flwr_kld.strategies.sealed_sum import SealedSum
from flwr_kld.strategies.split_sum import SplitSum
from flwr_kld.trust import Trust
from flwr_kld.trust.session_book import NightAnswers
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.terms import NoiseShares
from flwr_kld.trust.trust_model import require_covered

logger = logging.getLogger("flwr.kld")

_MOST_NAMED = 5
"""Clients without records. Where more are without, that is usual, and the report counts them."""


@contextmanager
def failing() -> Iterator[None]:
    """Let a check fail by what is refused on this side."""
    try:
        yield
    except SessionMismatch as error:
        raise SessionOver(str(error)) from None
    except QueryRefused as error:
        raise CheckFailed(str(error)) from None


class PlainSum:
    """The server receives each client's exact counts and adds them up."""

    name = "plain-sum"
    hides_parts = False
    enforces_limits = True
    adds_noise = False

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Return everybody: no node has another role."""
        return present

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Need nobody but the cohort."""

    @failing()
    def collect(self, exchange: CountExchange, least: int) -> Collected:
        """Send the terms, wait, and sum every valid row of numbers; the caller checks `least`."""
        cohort, promised = CohortReplies(exchange), exchange.terms.guarantee
        layout = exchange.terms.layout
        night = _night(exchange)
        clear: ClearSum | LabelSum
        if exchange.terms.unlisted_labels is not None:
            clear = LabelSum(cohort.read())
        else:
            clear = ClearSum.of_answers(
                cohort.read() if night is None else night.read(cohort.read()),
                layout,
                promised,
                most=exchange.terms.most_records,
                # In a session all that a client counted may be gone.
                empty=night is not None or not layout.total_is_public(promised),
            )
        refused = clear.refused if night is None else clear.refused | night.refused
        for participant, why in refused.items():
            if isinstance(participant, Participant):
                said = why if why == NO_RECORDS else f"invalid reply: {why}"
                cohort.left_out[participant] = said
        none = [str(p) for p, why in clear.refused.items() if why == NO_RECORDS]
        if 0 < len(none) <= _MOST_NAMED:
            logger.warning("these clients have no records: %s", ", ".join(none))
        collected = Collected(
            clear,
            cohort.left_out,
            cohort.traffic,
            sizes=clear.sizes if isinstance(clear, ClearSum) else None,
        )
        if night is None:
            return collected
        noise = night.claim(exchange.bits, clear.refused)
        return replace(collected, noise=noise, carried=night.carried)


def _night(exchange: CountExchange) -> NightAnswers | None:
    """Return what the server keeps of a session; None if the check is of none."""
    if not isinstance(exchange.trust, Standing):
        return None
    return exchange.trust.kept().open(exchange.terms, 4 * exchange.terms.numbers)


@runtime_checkable
class Aggregation(Protocol):
    """How clients' counts become a sum."""

    @property
    def name(self) -> str:
        """Name in reports."""
        ...

    @property
    def hides_parts(self) -> bool:
        """Whether the server sees sums only."""
        ...

    @property
    def enforces_limits(self) -> bool:
        """Whether somebody sees each client's numbers, and holds them to what one may answer."""
        ...

    @property
    def adds_noise(self) -> bool:
        """Whether sums reach the server with their noise, from an aggregator."""
        ...

    def clients(self, present: list[Participant], grid: Grid, timeout: float) -> list[Participant]:
        """Leave out nodes that are connected but are not clients."""
        ...

    def prepare(
        self, chosen: list[Participant], grid: Grid, timeout: float, least: int, keys: Sequence[str]
    ) -> None:
        """Find out, before anything is paid for, whether the cohort can be asked."""
        ...

    def collect(self, exchange: CountExchange, least: int) -> Collected:
        """Ask the cohort; at least `least` clients must be in the sum."""
        ...


_BY_AGGREGATORS = (PlainSum, SealedSum, SplitSum)
"""The usual aggregation of a trust model with no aggregator, one, or two."""


def is_built_in(aggregation: Aggregation) -> bool:
    """Whether an aggregation keeps what a session needs, and lets the clock count its messages.

    `SecureSum` is none of these: it keeps no session.
    """
    return type(aggregation) in _BY_AGGREGATORS


def fitting(trust: Trust, aggregation: Aggregation | None) -> Aggregation:
    """Return the aggregation that is given, or else the usual one of a trust model."""
    if aggregation is not None:
        instance("aggregation", aggregation, Aggregation, "a way to add up, such as SecureSum()")
    require_covered(trust)
    usual = _BY_AGGREGATORS[len(trust.aggregator_keys)]()
    aggregation = aggregation or usual
    mine = f"trust={type(trust).__name__}(…)"
    if usual.adds_noise and type(aggregation) is not type(usual):
        raise ValueError(
            f"{mine} needs aggregation={type(usual).__name__}(), its default: leave aggregation "
            "out, so that counts are sealed for the aggregator"
        )
    if aggregation.adds_noise and not usual.adds_noise:
        model = "TwoAggregators" if isinstance(aggregation, SplitSum) else "TrustedAggregator"
        raise ValueError(
            f"aggregation={type(aggregation).__name__}(…) needs trust={model}(…): "
            f"{mine} names no aggregator to seal counts to"
        )
    if isinstance(trust.noise_before, NoiseShares) and not aggregation.hides_parts:
        raise ValueError(
            f"{mine} needs aggregation=SecureSum(): a single client's noise share does not hide "
            "that client's counts"
        )
    return aggregation
