"""What one release costs a person whom it touches.

Proof note: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, get_args

from flwr_kld.common.errors import damaged
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import InvalidArgument, as_tuple, choice, integer, set_fields
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Ball, Protected
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.ledger.budget import UNBOUNDED, Budget, exact, shown, written
from flwr_kld.ledger.delivered import epsilon_of

_LONGEST_REACH = 1 << 16
"""Tables beyond are not kept: their releases count by epsilon and delta."""
_WIDTH = 17
"""Bytes that hold any weight of a table, 2**128 included."""


class DrawsEvent(Protocol):
    """All draws of a sampler: what they cost together, and whether they protect anybody."""

    @property
    def epsilon(self) -> float:
        """In nats."""
        ...

    @property
    def delta(self) -> float:
        """A probability."""
        ...

    @property
    def private(self) -> bool:
        """Whether no seed decides the draws."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Cost:
    """One kind of release.

    Parameters
    ----------
    mechanism : str
        Name of the mechanism, for people.
    epsilon, delta : Fraction
        Epsilon in nats, above 0 and at most 10**6, which stands for any larger one.
    protects : {"record", "client"}
        Whom the amounts are for.
    shifts : tuple[int, ...]
        Worst-case move of the released vector, where `table` is known.
    table : NoiseTable or None
        Law of the noise on each coordinate, from below. None if only epsilon and delta are known.
    """

    mechanism: str
    epsilon: Fraction
    delta: Fraction
    protects: Protected
    shifts: tuple[int, ...] = ()
    table: NoiseTable | None = None

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=_amount("epsilon", self.epsilon or -1, UNBOUNDED),
            delta=_amount("delta", self.delta, 1),
            protects=choice("protects", self.protects, get_args(Protected)),
            shifts=tuple(integer("a shift", shift) for shift in as_tuple("shifts", self.shifts)),
        )

    @classmethod
    def claimed(
        cls,
        mechanism: str,
        guarantee: Guarantee,
        delivered: float | None = None,
    ) -> Cost:
        """Count a release by its guarantee.

        Parameters
        ----------
        delivered : float, optional
            Epsilon in nats that the noise delivers where it is not what was asked for; infinite
            if it delivers none.
        """
        epsilon = guarantee.epsilon if delivered is None else delivered
        amount = Fraction(UNBOUNDED) if epsilon >= UNBOUNDED else exact(epsilon)
        return cls(mechanism, amount, exact(guarantee.delta), guarantee.protected)

    @classmethod
    def of(cls, event: Release) -> Cost:
        """Count a release by its noise table.

        The table of clients' noise shares is the noise of everybody in the sum, which is not what
        protects them; such an event counts by what it says was delivered (see `of_shares`).
        """
        cost = cls.claimed(event.mechanism, event.guarantee, event.delivered)
        if event.delivered is not None or isinstance(event.moves, Ball):
            return cost  # of a ball it is not known which move is worst
        return cost._with_table(event.table, event.moves)

    @classmethod
    def of_shares(cls, share: ShareRelease, survivors: int, corrupted: int = 0) -> Cost:
        """Count a release by the law of the honest survivors' noise shares, on their own grid.

        Parameters
        ----------
        share : ShareRelease
            What each client adds.
        survivors : int
            Clients in the sum.
        corrupted : int
            How many of them may have told their share.
        """
        honest = survivors - corrupted
        cost = cls.claimed(
            f"distributed {share.mechanism}",
            share.guarantee,
            epsilon_of(share, honest),
        )
        if isinstance(share.moves, Ball) or honest < 1:
            return cost
        return cost._with_table(share.noise(honest), tuple(share.grid * s for s in share.moves))

    @classmethod
    def of_draws(cls, event: DrawsEvent, budget: Budget) -> Cost:
        """Count all draws of a sampler, for whom a budget is.

        The draws are as hard to tell apart for *any* two sets of private data, so for those that
        differ in a record or in a client.

        Parameters
        ----------
        event : DrawsEvent
            ``Sampler.event``: of all draws, whether they are drawn or not.
        budget : Budget
            Which the draws are charged to.

        Raises
        ------
        ValueError
            If the draws come from a seed, which protects nobody.
        """
        if not event.private:
            raise ValueError("seeded draws protect nobody: they cannot be charged to a budget")
        amounts = cls.claimed("integral box", Guarantee(event.epsilon, event.delta))
        return replace(amounts, protects=budget.protects)

    def __repr__(self) -> str:
        amounts = f"epsilon={shown(self.epsilon)}, delta={shown(self.delta)}"
        table = "" if self.table is None else f", {self.table}"
        return f"Cost({self.mechanism}, {amounts} per {self.protects}{table})"

    def require(self, budget: Budget) -> None:
        """Refuse a budget of others than this release protects."""
        if self.protects != budget.protects:
            raise ValueError(
                f"the budget of {budget.population!r} is for each {budget.protects}, but this "
                f"release protects each {self.protects}: use a trust model that protects the same, "
                "or charge a budget of another population"
            )

    def bare(self) -> Cost:
        """Return the guarantee alone: releases of one epsilon and delta are one kind."""
        return Cost("", self.epsilon, self.delta, self.protects)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that accounting reads."""
        header = json.dumps([self._header(), self.shifts])
        return hashlib.sha256(header.encode() + self.noise).hexdigest()

    @cached_property
    def noise(self) -> bytes:
        """The table: its tail, its tail's ratio, and its weights from 0 upwards; or nothing."""
        if self.table is None:
            return b""
        numbers = (self.table.tail, self.table.tail_ratio, *self.table.weights[self.table.reach :])
        return b"".join(number.to_bytes(_WIDTH, "little") for number in numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def to_row(self) -> dict[str, Any]:
        """Return the columns of a database row."""
        return {
            "digest": self.digest,
            **self._header(),
            "shifts": json.dumps(self.shifts),
            "noise": self.noise,
        }

    @classmethod
    def from_row(cls, row: Any) -> Cost:
        """Read what `to_row` wrote.

        Raises `LedgerUnavailable` if it is not what was written.
        """
        try:
            cost = cls(
                row.mechanism,
                written(row.epsilon),
                written(row.delta),
                row.protects,
                json.loads(row.shifts),
                _table(row.noise) if row.noise else None,
            )
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            raise damaged("a cost") from None
        if cost.digest != row.digest:
            raise damaged("a cost")
        return cost

    def _header(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "protects": self.protects,
        }

    def _with_table(self, table: NoiseTable, shifts: tuple[int, ...]) -> Cost:
        return self if table.reach > _LONGEST_REACH else replace(self, shifts=shifts, table=table)


def _amount(name: str, value: int | Fraction, most: int) -> Fraction:
    """Return an amount as a fraction, at least 0 and at most `most`."""
    if type(value) not in (int, Fraction) or not 0 <= value <= most:
        raise InvalidArgument(name, f"a whole number or a fraction, 0 to {most}", value)
    return Fraction(value)


def _table(noise: bytes) -> NoiseTable:
    """Read `Cost.noise`."""
    starts = range(0, len(noise), _WIDTH)
    tail, ratio, *side = (int.from_bytes(noise[i : i + _WIDTH], "little") for i in starts)
    return NoiseTable((*side[:0:-1], *side), tail, ratio)
