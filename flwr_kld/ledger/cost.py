"""What one release costs a person whom it touches.

Proof note: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import get_args

from flwr_kld.common.search import edge
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import (
    InvalidArgument,
    as_tuple,
    choice,
    finite,
    integer,
    set_fields,
)
from flwr_kld.kernel.delta import ideal_gaussian_delta
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Ball, Protected
from flwr_kld.kernel.release import Release, ShareRelease
from flwr_kld.ledger.budget import UNBOUNDED, Budget, exact, shown
from flwr_kld.ledger.delivered import epsilon_of

_LONGEST_REACH = 1 << 18
"""Tables beyond, longer than checks allot, are not kept: such releases count by ε and δ alone."""
_MOST_NOISE = 10**9
"""Noise multipliers beyond count as this one."""
ROUNDS = 1000
"""Where epsilons are added up, that of a round is at the budget's delta divided by this."""
_LEAST_EPSILON = 1e-9
"""Of a Gaussian release, in nats."""


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
    noise_multiplier : Fraction or None
        Of Gaussian noise on real numbers: its standard deviation, in units of the largest l2 norm
        of a move. None of any other.
    """

    mechanism: str
    epsilon: Fraction
    delta: Fraction
    protects: Protected
    shifts: tuple[int, ...] = ()
    table: NoiseTable | None = None
    noise_multiplier: Fraction | None = None

    def __post_init__(self) -> None:
        if self.noise_multiplier is not None:
            _amount("noise_multiplier", self.noise_multiplier or -1, _MOST_NOISE)
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
    def gaussian(cls, noise_multiplier: float, delta: float, protects: Protected) -> Cost:
        """Count a release of real numbers with Gaussian noise, such as a round of training.

        Parameters
        ----------
        noise_multiplier : float
            Standard deviation of the noise, in units of the largest l2 norm of a move; > 0.
        delta : float
            In (0, 1): where guarantees are added up, its epsilon is the least at this delta.
        """
        noise = min(finite("noise_multiplier", noise_multiplier, above=0), float(_MOST_NOISE))
        delta = finite("delta", delta, above=0, below=1)
        epsilon = edge(
            lambda nats: ideal_gaussian_delta(1 / noise, nats) <= delta,
            float(UNBOUNDED),
            _LEAST_EPSILON,
            within=1e-9,
        )
        return cls(
            "gaussian", exact(epsilon), exact(delta), protects, noise_multiplier=exact(noise)
        )

    @classmethod
    def training(cls, noise_multiplier: float, delta: float, protects: Protected) -> Cost:
        """Count a round of DP-FedAvg with Flower's fixed clipping (``docs/proofs/training.md``).

        A record that changes moves its client's update by twice the clipping norm.
        """
        return cls.gaussian(noise_multiplier / (1 if protects == "client" else 2), delta, protects)

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
        amounts = self.mechanism, str(self.epsilon), str(self.delta), self.protects, self.shifts
        law = self.table and (self.table.tail, self.table.tail_ratio, self.table.weights)
        noise = () if self.noise_multiplier is None else (str(self.noise_multiplier),)
        return hashlib.sha256(json.dumps([*amounts, law, *noise]).encode()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _with_table(self, table: NoiseTable, shifts: tuple[int, ...]) -> Cost:
        return self if table.reach > _LONGEST_REACH else replace(self, shifts=shifts, table=table)


def _amount(name: str, value: int | Fraction, most: int) -> Fraction:
    """Return an amount as a fraction, at least 0 and at most `most`."""
    if type(value) not in (int, Fraction) or not 0 <= value <= most:
        raise InvalidArgument(name, f"a whole number or a fraction, 0 to {most}", value)
    return Fraction(value)
