"""Standing sessions: one charge for many nights that count the same records."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.durable_files import UnusableSecret, secret_of
from flwr_kld.common.errors import CheckFailed
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.arguments import finite, instance, set_fields
from flwr_kld.kernel.continual import MOST_NIGHTS, Continual, stream_of
from flwr_kld.kernel.law import NoiseTable
from flwr_kld.kernel.promise import Allotment
from flwr_kld.kernel.release import Release
from flwr_kld.trust.calibration import continual_release
from flwr_kld.trust.noise_laws import discrete_gaussian
from flwr_kld.trust.session_book import SessionBook
from flwr_kld.trust.terms import Night, Noise, Terms
from flwr_kld.trust.trust_model import Trust, allotted_to
from flwr_kld.trust.trusted import CentralNoise, TwoAggregators

_STEPS = 3
"""Of a count, beside the one of a frozen record: that makes the noise of fewer than nine columns
grow by less than 3 %, as it does of more columns in whole counts."""


@dataclass(frozen=True)
class Standing(Trust):
    """The same clients' records, counted on many nights for the price of a few checks.

    All nights together keep what `trust` promises. Only changes of the counts are new from one
    night to the next, and the noise is correlated so that it hides these
    (`flwr_kld.kernel.continual`). Clients keep, on their node, as what each record was counted, so
    they need ``record_ids=``; a client that is silent for a night counts as it did before.

    Parameters
    ----------
    trust : Trusted, TrustedAggregator or TwoAggregators
        Who adds the noise, and what all nights together promise; with ``delta > 0``, of records.
    nights : int
        Checks in a session, 1 to 2,000. Default 365.
    moves : int
        How often a record may come or go in a session, 2 or another even number. With 2, the
        default, it comes and goes once, and counts as what it was when it came; each change of its
        values that is to count takes two more.
    name : str
        Of the session, which lasts until its nights are over. Another name begins another one,
        which is charged anew.
    days : float, optional
        From its first night to its last moment, at most 2,000; by default one for each night. A
        node's guard charges a session until then, and nothing is released afterwards: the next
        check begins another one.
    book : str or Path
        Under `Trusted`: file in which the server keeps, sealed, seeds of the noise and clients'
        last answers. Its key lies beside it, in a file with ``.key`` after its name.

    Raises
    ------
    ValueError
        If such noise cannot keep the promise, or a number is out of range.
    """

    trust: CentralNoise
    nights: int = 365
    moves: int = 2
    name: str = field(default="standing", kw_only=True)
    days: float | None = field(default=None, kw_only=True)
    book: str | Path = field(default="standing.db", kw_only=True)
    night: Night | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        trust = instance("trust", self.trust, CentralNoise, "such as Trusted(1.0, 1e-6)")
        stream = Continual(self.nights, self.moves)
        if self.days is not None:
            set_fields(self, days=finite("days", self.days, above=0, most=MOST_NIGHTS, unit="days"))
        set_fields(self, nights=stream.nights, moves=stream.moves, book=Path(self.book))
        if trust.guarantee.protects != "record":
            raise ValueError("a standing session protects records: leave protects= out")
        self.event(1)

    def over(self, allotment: Allotment | int) -> Self:
        """Return this model for a table, by default in steps beside which one more hardly shows."""
        if not isinstance(allotment, Allotment):
            columns = allotted_to(allotment).columns
            allotment = Allotment((_STEPS if columns < _STEPS**2 else 1,) * columns)
        return replace(self, trust=self.trust.over(allotment))

    def on(self, night: Night) -> Self:
        """Return this model on one night, of a session that goes on as it began."""
        return replace(self, nights=night.nights, moves=night.moves, night=night)

    @property
    def allotment(self) -> Allotment:  # type: ignore[override]
        """How finely the counts of each column are released."""
        return self.trust.allotment

    @property
    def stream(self) -> Continual:
        """The mechanism."""
        return stream_of(self.nights, self.moves)

    @property
    def guarantee(self) -> Guarantee:
        """What all nights of a session promise together."""
        return self.trust.guarantee

    def event(self, clients: int) -> Release:
        """Return the release of a session, with the noise of its night, or of its last one."""
        release = continual_release(self.guarantee, self.stream, self.allotment)
        return replace(release, added=self._noise(release))

    def _noise(self, release: Release) -> NoiseTable:
        """Return the law of the noise in a count."""
        weights = self.stream.weights(self.night.number if self.night else self.nights)
        variance = release.table.variance * float(weights @ weights)
        twice = 2 if isinstance(self.trust, TwoAggregators) else 1
        return discrete_gaussian(math.sqrt(twice * variance))

    @property
    def noise_before(self) -> Noise:
        """Return the noise that is added before the server sees a number."""
        return self.trust.noise_before

    def terms(self, plan: QueryPlan, **about: object) -> Terms:
        """Return the terms that all clients receive on this night."""
        return replace(super().terms(plan, **about), night=self.night)  # type: ignore[arg-type]

    def kept(self) -> SessionBook:
        """Return what the server keeps of its sessions, where it adds the noise.

        Raises `CheckFailed` if its key cannot be read or written.
        """
        book = Path(self.book)
        try:
            return SessionBook(book, secret_of(book.with_name(f"{book.name}.key")))
        except (OSError, UnusableSecret) as error:
            raise CheckFailed(
                f"the book of the session, {book}, cannot be used: {error}; name a file that is "
                "kept between checks: Standing(…, book=…)"
            ) from None
