"""A server's place in a standing session: which night is next, and whether it is still the same."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel.law import SystemBits
from flwr_kld.ledger.entry import Remembered
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.terms import MARK, Night, Terms

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger

_DAY = 24 * 60 * 60


@dataclass
class Session:
    """Counts the nights. With a ledger it outlives the process; without one, it does not."""

    trust: Standing
    budget: str  # Population whose ledger remembers it
    _kept: Remembered | None = None

    def recall(self, ledger: Ledger) -> None:
        """Take up what a ledger remembers."""
        self._kept = ledger.state(self.name)

    def tonight(self) -> Night:
        """Return the night that is next; of a session that is over, the first of another one."""
        kept, mark, now = self._value, _drawn()[:MARK], time.time()
        if not kept or kept["night"] >= kept["nights"] or now > kept["until"]:
            until = int(now + (self.trust.days or self.trust.nights) * _DAY)
            return Night(_drawn(), 1, self.trust.nights, self.trust.moves, mark, until)
        number, nights, moves = kept["night"] + 1, kept["nights"], kept["moves"]
        marks = kept["marks"] + mark
        until, released = kept["until"], kept["released"]
        return Night(kept["session"], number, nights, moves, marks, until, released)

    def generator(self, night: Night) -> np.random.Generator:
        """Return what draws the plan: the same on every night."""
        return np.random.default_rng(int(night.session, 16))

    def require(self, terms: Terms) -> None:
        """Refuse to go on with another question: clients would."""
        kept, night = self._value, terms.night
        if night is None or night.number == 1 or terms.session == kept["fingerprint"]:
            return
        raise CheckFailed(
            f"night {night.number} of {night.nights} of the session {self.trust.name!r} asks "
            "something else than its first night did: the domain, the plan, the trust model or "
            "the version of flwr-kld changed. Put it back, or begin another session by another "
            "Standing(…, name=…), which is charged anew"
        )

    def begun(self, terms: Terms) -> Remembered:
        """Return what is to be remembered before anybody is asked: that a night is asked for."""
        if (night := terms.night) is None:
            raise ValueError("these terms are of no night")
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
        return remembered

    def released(self) -> Remembered:
        """Return what is to be remembered of a night whose numbers came."""
        if self._kept is None:
            raise ValueError("no night has begun")
        value = {**self._value, "released": self._value["night"]}
        remembered = replace(self._kept, value=value)
        self._kept = replace(remembered, version=remembered.version + 1)
        return remembered

    @property
    def _value(self) -> dict[str, Any]:
        return self._kept.value if self._kept else {}

    @property
    def name(self) -> str:
        """Under which a ledger remembers it."""
        return f"{self.budget}/session/{self.trust.name}"


def _drawn() -> str:
    """Draw 64 bits, hexadecimal."""
    return SystemBits().words(1).tobytes().hex()
