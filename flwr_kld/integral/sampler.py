"""The one way out: k draws for a cost that is fixed beforehand, and not one more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from threading import Lock
from typing import Any, ClassVar

from numpy.typing import NDArray

from flwr_kld.integral.accounting import epsilon_of_draws
from flwr_kld.integral.mollifier import Mollifier
from flwr_kld.kernel.arguments import Unfit, real, whole
from flwr_kld.kernel.law import BitSource, SystemBits
from flwr_kld.kernel.vector import OneProcess, Private


class BudgetSpent(RuntimeError):
    """More draws were asked for than were paid for; nothing was drawn."""


class Law(Private, ABC):
    """A density fitted to private data. Only a `Sampler` draws from it: each draw has a cost."""

    __slots__ = ()

    mechanism: ClassVar[str]  # ``"box"`` or ``"rejection"``. Public, as the others are.
    box: Mollifier  # Box that every possible law of a draw lies in
    # Range of the log ratio of any two possible laws, in nats, where it is known
    bounded_range: float | None

    @abstractmethod
    def _draw(self, size: int, bits: BitSource) -> NDArray[Any]:
        """Draw `size` independent points, each at the cost of ``box.epsilon``. For `Sampler`."""


@dataclass(frozen=True)
class IntegralEvent:
    """What a sampler's draws cost, all together; what a ledger books."""

    # Between *any* two sets of private data, whatever they share, the draws are (epsilon, delta)-
    # indistinguishable. So the event is also (epsilon, delta)-private for one record, for one
    # client and for any group of them, and adds to their budgets as it is.

    mechanism: str  # ``"box"`` or ``"rejection"``
    epsilon: float  # Total of all draws
    delta: float
    draws: int  # k, at most
    epsilon_per_draw: float  # Pure cost of each draw, in nats
    private: bool  # False if the draws come from a seed: a simulation


class Sampler(OneProcess):
    """At most k draws from a private density; shows neither the density nor how it came about.

    The whole cost is due when the first draw leaves: book `event` first, then draw.

    Parameters
    ----------
    law : Law
        What `mollify` or `mbde` returned.
    draws : int
        k, from 1 to 2**63 - 1, chosen without looking at the private data.
    delta : float
        In [0, 1); 0 is pure epsilon. Default 0.
    bits : BitSource, optional
        Random bits; the operating system's by default. A seed is for simulations.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    __slots__ = ("_bits", "_law", "_left", "_lock", "event")

    def __init__(
        self, law: Law, draws: int, *, delta: float = 0.0, bits: BitSource | None = None
    ) -> None:
        super().__init__()
        if not isinstance(law, Law):
            raise Unfit("law", "what mollify or mbde returned", law)
        draws, delta = whole("draws", draws, least=1), real("delta", delta, least=0, below=1)
        self._law = law
        self._bits = bits or SystemBits()
        self._left = draws
        self._lock = Lock()
        self.event = IntegralEvent(
            law.mechanism,
            epsilon_of_draws(law.box, draws, delta, bounded_range=law.bounded_range),
            delta,
            draws,
            law.box.epsilon,
            self._bits.private,
        )
        """What all draws together cost. Public."""

    @property
    def left(self) -> int:
        """Draws that are left."""
        return self._left

    def draw(self, size: int = 1) -> NDArray[Any]:
        """Draw `size` points; they are public.

        Raises
        ------
        BudgetSpent
            If fewer than `size` are left: then none is drawn.
        ValueError
            If `size` is below 1.
        RuntimeError
            In a fork of the process that made the sampler: both would draw from one budget.
        """
        size = whole("size", size, least=1)
        self._stay_here()
        with self._lock:
            if size > self._left:
                raise BudgetSpent(f"{self._left} of {self.event.draws} draws are left, not {size}")
            self._left -= size  # gone before the draw: a failed draw is not given back
        return self._law._draw(size, self._bits)
