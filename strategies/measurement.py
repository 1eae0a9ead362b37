"""Both exchanges of a check: one half finds where to look, the other measures there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flwr.serverapp import Grid

from flwr_kld.cohort.cohort import Participant
from flwr_kld.cohort.halves import Part
from flwr_kld.counts import NoisyCounts
from flwr_kld.errors import CheckFailed
from flwr_kld.inference.contradictions import contradiction
from flwr_kld.inference.witness import Witness
from flwr_kld.query import QueryPlan
from flwr_kld.strategies.asking import Asking, Published


@dataclass(frozen=True)
class Measured:
    """Public: what a check published.

    Parameters
    ----------
    first : Published
        Counts for the estimate.
    parts : Sequence[Part]
        Who was asked, for what.
    witness : Witness or None
        Where the first half said to look; None if only one exchange was wanted.
    second : Published or None
        The second half's counts of the witness's levels; None if it failed.
    failure : str or None
        Why it did.
    """

    first: Published
    parts: Sequence[Part]
    witness: Witness | None = None
    second: Published | None = None
    failure: str | None = None

    @property
    def _done(self) -> list[Published]:
        return [exchange for exchange in self._exchanges if exchange is not None]

    @property
    def left_out(self) -> dict[Participant, str]:
        """Why clients did not answer everything that they were asked, each once."""
        reasons: dict[Participant, str] = {}
        if self.witness is not None and self.second is None:
            first, second = self.parts  # whoever is in the first one is in the estimate
            others = set(second.participants) - set(first.participants)
            reasons = dict.fromkeys(others, "the second half of the check failed")
        for exchange in reversed(self._done):  # what was heard first goes
            reasons |= exchange.left_out
        return reasons

    @property
    def asked(self) -> int:
        """Clients asked in all exchanges, each counted once."""
        return len({participant for part in self.parts for participant in part.participants})

    @property
    def survivors(self) -> int:
        """Clients that answered everything that they were asked."""
        return self.asked - len(self.left_out)

    def contradiction(self, most_records: int) -> str | None:
        """Say what cannot be in the published counts, if a client has at most so many records."""
        for exchange in self._done:
            if isinstance(exchange.values, NoisyCounts):
                found = contradiction(exchange.values, exchange.survivors, most_records)
                if found is not None:
                    return found
        return None

    @property
    def counted(self) -> Part:
        """Which records of whom the first exchange counted."""
        first, left_out = self.parts[0], self.first.left_out
        return Part([p for p in first.participants if p not in left_out], first.selection)

    @property
    def population(self) -> str:
        """Whose divergence the second half tells of."""
        if self.second is None:
            raise ValueError("no second half tells of anybody")
        if self.second.values.plan.selection.by == "client":
            return f"the clients that these {self.survivors} were drawn from"
        return f"these {self.second.survivors} clients"

    @property
    def traffic(self) -> tuple[float, float]:
        """Bytes down and up for each client asked, mean."""
        down = sum(exchange.asked * exchange.bytes_down for exchange in self._done)
        up = sum(exchange.asked * exchange.bytes_up for exchange in self._done)
        return down / self.asked, up / self.asked

    @property
    def summed(self) -> list[int | None]:
        """Clients in the sum of each part that was asked; None for one that failed."""
        return [None if exchange is None else exchange.survivors for exchange in self._exchanges]

    @property
    def _exchanges(self) -> tuple[Published | None, ...]:
        return (self.first,) if self.witness is None else (self.first, self.second)


def measure(
    asking: Asking,
    grid: Grid,
    parts: Sequence[Part],
    plan: QueryPlan,
    *,
    check: str,
    group: str,
    timeout: float,
    theta: float,
    level: float,
) -> Measured:
    """Ask one part, or two: then the second is asked what the first one's answers suggest.

    Parameters
    ----------
    parts : Sequence[Part]
        Whom, and for which records.
    plan : QueryPlan
        What the first part is asked.
    theta, level : float
        Of the bound that the second part is asked for.

    The other parameters are those of `Asking.publish`.

    Raises
    ------
    CheckFailed
        If the first exchange fails. If the second does, the first one's numbers stand.
    """
    first, *others = parts
    found = asking.publish(
        grid,
        first.participants,
        plan.over(first.selection),
        check=check,
        group=group,
        timeout=timeout,
    )
    if not others or not isinstance(found.values, NoisyCounts):
        return Measured(found, parts)
    witness = Witness.from_counts(found.values, theta=theta, level=level)
    second = others[0]
    try:
        counted = asking.publish(
            grid,
            second.participants,
            witness.query_plan().over(second.selection),
            check=f"{check}-2",
            group=group,
            timeout=timeout,
        )
    except CheckFailed as error:
        return Measured(found, parts, witness, None, str(error))
    return Measured(found, parts, witness, counted)
