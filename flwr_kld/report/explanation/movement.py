"""One cell's movement."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Movement:
    """How far one cell of a check lies from the reference. Everything in it is public.

    Parameters
    ----------
    name : str
        The cell in the domain's own words.
    kind : str
        Kind of the domain, such as ``"block_patterns"``.
    symbol : int or None
        The cell's symbol, where it holds only one.
    symbols : int
        How many it holds.
    reference : float
        Share of the records that the reference expects.
    share : float
        Estimated share of the records, in [0, 1].
    deviation : float
        Standard deviation of that estimate, by sampling and noise.
    z : float
        Difference from the expected count, in the standard deviations that it would have if the
        cell had not moved.
    low, high : float
        Interval for the share that holds for all cells of the check at once.
    contribution : float
        Estimated part of the divergence, in nats, >= 0; the cells' parts add up to D_θ.
    at_least : float
        Part that it has at the end of the interval next to the reference, in nats; 0 if the
        reference lies inside.
    """

    name: str
    kind: str
    symbol: int | None
    symbols: int
    reference: float
    share: float
    deviation: float
    z: float
    low: float
    high: float
    contribution: float
    at_least: float

    @property
    def direction(self) -> str:
        """Whether there is ``"more"`` or ``"fewer"`` of it than the reference expects."""
        return "more" if self.z >= 0 else "fewer"

    @property
    def beyond_chance(self) -> bool:
        """Whether the reference lies outside the interval."""
        return not self.low <= self.reference <= self.high

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form, with direction and certainty."""
        return {
            **asdict(self),
            "direction": self.direction,
            "beyond_chance": self.beyond_chance,
        }

    def __str__(self) -> str:
        sure = "" if self.beyond_chance else ", within chance"
        return (
            f"{self.direction} of {self.name}: {100 * self.share:.3g} % instead of "
            f"{100 * self.reference:.3g} % "
            f"(z = {self.z:+.1f}{sure})"
        )
