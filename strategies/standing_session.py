"""Where a server is in a standing session: which night is next, and what a ledger remembers.

Strategies ask one of two objects: `StandingSession`, or `SingleChecks` where each check is paid for
by itself and there is nothing to remember.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flwr_kld.ask.cohort import Cohort, UniformCohort
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.law import SystemBits
from flwr_kld.ledger import Cost
from flwr_kld.ledger.entry import Remembered
from flwr_kld.strategies.aggregation import Aggregation, is_built_in
from flwr_kld.trust import Trust
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.terms import MARK, Night

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

_DAY = 24 * 60 * 60


def session_of(trust: Trust, budget: str, cohort: Cohort, aggregation: Aggregation) -> SingleChecks:
    """Return the session that a strategy's checks are nights of, or `SingleChecks`.

    Raises `ValueError` if the cohort or the aggregation does not serve a session.
    """
    if not isinstance(trust, Standing):
        return SingleChecks(trust)
    if not isinstance(cohort, UniformCohort) or cohort.size is not None:
        raise ValueError("a standing session asks all clients, on every night: leave cohort= out")
    if not is_built_in(aggregation):
        raise ValueError(
            f"Standing(…) does not support {type(aggregation).__name__}(…): use PlainSum(), "
            "or Standing(TrustedAggregator(…)) or Standing(TwoAggregators(…))"
        )
    return StandingSession(trust, budget)


class SingleChecks:
    """Checks of which each is paid for by itself."""

    key = ""
    """Of the session, in a ledger."""
    night = nights = 1
    """Number of the check among those that one charge pays for, and how many these are."""
    repeatable = True
    """Whether a check concludes anew when another one was settled meanwhile."""

    def __init__(self, trust: Trust) -> None:
        self.trust = trust
        """Trust model of the next check."""

    def refuse(self, **options: object) -> None:
        """Raise `ValueError` if any of these options is given and a session has no use for it."""

    def lock(self, ledger: Ledger | None) -> AbstractContextManager[None]:
        """Return what is held during a check."""
        return nullcontext()

    def advance(self, ledger: Ledger | None) -> None:
        """Go on to the next check, after what the ledger remembers."""

    def generator(self, usual: np.random.Generator) -> np.random.Generator:
        """Return what draws the plan of the check."""
        return usual

    def begin(self, plan: QueryPlan, asked: int) -> Sequence[Remembered]:
        """Return what is to be remembered before anybody is asked.

        Raises `CheckFailed` if the plan is not the session's.
        """
        return ()

    def settled(self, survivors: int) -> tuple[Sequence[Remembered], Cost | None]:
        """Return what is to be remembered of a check that was released, and what it cost.

        The cost is None if it is what was reserved.
        """
        return (), self.delivered(survivors)

    def delivered(self, survivors: int) -> Cost | None:
        """Return what a check cost in the end; None if it is not charged by itself."""
        return self.trust.cost(survivors)


class StandingSession(SingleChecks):
    """Counts the nights. With a ledger it outlives the process; without one, it does not."""

    repeatable = False
    trust: Standing

    def __init__(self, trust: Standing, budget: str) -> None:
        super().__init__(trust)
        self.name = f"{budget}/session/{trust.name}"
        """Under which a ledger remembers it."""
        self._first = trust
        self._kept: Remembered | None = None

    def refuse(self, **options: object) -> None:
        """Raise `ValueError` if any of these options is given."""
        for name, given in options.items():
            if given is not None:
                raise ValueError(
                    f"a standing session counts all records as they are: leave {name}= out"
                )

    def lock(self, ledger: Ledger | None) -> AbstractContextManager[None]:
        """Return a lock, so that no other process runs a night meanwhile."""
        return nullcontext() if ledger is None else ledger.running(self.name)

    def advance(self, ledger: Ledger | None) -> None:
        """Go on to the next night, after what the ledger remembers."""
        if ledger is not None:
            self._kept = ledger.state(self.name)
        if self._first.noise_before is None:
            self._first.kept()  # fails now, as nothing is paid for yet, if it cannot be opened
        night = self._next()
        self.trust = self._first.on(night)
        self.key, self.night, self.nights = night.session, night.number, night.nights

    def generator(self, usual: np.random.Generator) -> np.random.Generator:
        """Return what draws the plan: the same on every night."""
        return np.random.default_rng(int(self.key, 16))

    def _next(self) -> Night:
        """Return the night that is next; of a session that is over, the first of another one."""
        kept, mark, now = self._value, _drawn()[:MARK], time.time()
        if not kept or kept["night"] >= kept["nights"] or now > kept["until"]:
            trust = self._first
            until = int(now + (trust.days or trust.nights) * _DAY)
            return Night(_drawn(), 1, trust.nights, trust.moves, mark, until)
        number, nights, moves = kept["night"] + 1, kept["nights"], kept["moves"]
        marks = kept["marks"] + mark
        until, released = kept["until"], kept["released"]
        return Night(kept["session"], number, nights, moves, marks, until, released)

    def begin(self, plan: QueryPlan, asked: int) -> Sequence[Remembered]:
        """Return, before anybody is asked, that this night is asked for.

        Raises `CheckFailed` if it asks another question than its session: clients would refuse.
        """
        terms = self.trust.terms(plan, check="tonight", asked=asked, until=0)
        if (night := terms.night) is None:
            raise ValueError("these terms are of no night")
        if night.number > 1 and terms.session != self._value["fingerprint"]:
            raise CheckFailed(
                f"night {night.number} of {night.nights} of the session {self._first.name!r} asks "
                "something else than its first night did: the domain, the plan, the trust model or "
                "the version of flwr-kld changed. Put it back, or begin another session by another "
                "Standing(…, name=…), which is charged anew"
            )
        value = {
            "session": night.session,
            "fingerprint": terms.session,
            "until": night.until,
            "night": night.number,
            "nights": night.nights,
            "moves": night.moves,
            "marks": night.marks,
            "released": night.released,
        }
        remembered = Remembered(self.name, value, self._kept.version if self._kept else 0)
        self._kept = replace(remembered, version=remembered.version + 1)
        return (remembered,)

    def settled(self, survivors: int) -> tuple[Sequence[Remembered], Cost | None]:
        """Return that this night's numbers came; its session was paid for on the first night."""
        if self._kept is None:
            raise ValueError("no night has begun")
        value = {**self._value, "released": self._value["night"]}
        remembered = replace(self._kept, value=value)
        self._kept = replace(remembered, version=remembered.version + 1)
        return (remembered,), self.delivered(survivors)

    def delivered(self, survivors: int) -> Cost | None:
        """Return None: the session was charged."""
        return None

    @property
    def _value(self) -> dict[str, Any]:
        return self._kept.value if self._kept else {}


def _drawn() -> str:
    """Draw 64 bits, hexadecimal."""
    return SystemBits().words(1).tobytes().hex()
