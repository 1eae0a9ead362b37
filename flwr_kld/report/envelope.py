"""Fields that all reports have: when, under which guarantee, of whom, at what cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from flwr_kld.common.json_text import json_text
from flwr_kld.common.report_views import Viewed
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.report.words import aside
from flwr_kld.trust.visibility import Visibility

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

SCHEMA = 1
"""Version of the JSON form of reports: another for any field that comes, goes or changes."""
_CHECKSUM = "sha256"
"""Name of the checksum in it."""


@dataclass(frozen=True)
class CohortSummary:
    """Whose answers are in a result."""

    asked: int  # Clients in the cohort, and those whose answers are in the result
    survivors: int
    # Clients left out, by reason; of a predictor's round, answers too. Nodes that do not say which
    # clients they host are not among those asked, and are counted here, each once.
    dropouts: dict[str, int]
    silent: int = 0  # Clients of a standing session that did not answer, and count as they did

    def __str__(self) -> str:
        seen = f"{self.survivors:,} of {self.asked:,} clients{aside(self.dropouts)}"
        return f"{seen}; {self.silent} more count as they did before" if self.silent else seen


@dataclass(frozen=True)
class CostSummary:
    """What a result cost: privacy, time and traffic."""

    # In nats, what the noise delivers at the guarantee's delta: the guarantee's epsilon, or another
    # number where clients add the noise and more or fewer than planned survived
    epsilon: float
    seconds: float  # Wall time
    # What it went to, in seconds: messages to nodes, replies of theirs that were not there yet
    # (which is the network, Flower's polling, and clients that compute), and this server's own work
    asking: float
    waiting: float
    computing: float
    # What the budget's window had left for such questions, of the person charged most, in nats;
    # None without a ledger
    left: float | None = None
    budget: float | None = None  # Epsilon of the budget that was in force, in nats
    population: str | None = None  # Whose budget was charged; None without a ledger
    frees_at: str | None = None  # UTC, ISO 8601: when the window's oldest spend leaves it
    # For how many more like this, of the same clients, there was room; 366 for more. None without a
    # ledger, or if a standing session or a predictor was charged
    room: int | None = None
    bytes_down: float | None = None  # Payload for each client, mean; None where it was not measured
    bytes_up: float | None = None
    # Which night of a standing session, and of how many: `epsilon` is that of all of them
    night: int = 1
    nights: int = 1

    @property
    def charged(self) -> float:
        """What this check added to what was spent, in nats: nothing after a session's first."""
        return self.epsilon if self.night == 1 else 0.0

    @property
    def rest(self) -> str:
        """What is left of the budget, in nats: ``2.5 of 4``; a dash without a ledger."""
        if self.left is None or self.budget is None:
            return "–"
        return f"{self.left:.4g} of {self.budget:g}"

    @property
    def time(self) -> str:
        """The seconds in words: ``9.1 s (0.2 asking, 8.0 waiting, 0.9 computing)``."""
        return (
            f"{self.seconds:.1f} s ({self.asking:.1f} asking, {self.waiting:.1f} waiting, "
            f"{self.computing:.1f} computing)"
        )


_LARGE = 0.2
"""Fraction of the records in a sum from which on one client is worth a note."""


@dataclass(frozen=True)
class OneClient:
    """How much of a result one client can be. Everything in it is public."""

    most_records: int | None  # That one client counts at most; None if nothing limits it
    # Fraction of the records that the largest client holds, or may hold; None if nobody knows
    share: float | None = None
    name: str | None = None  # Of that client, as node and member; None if sizes are not public
    # Whether somebody saw each client's numbers, and held them to what one may answer. False of
    # secure and split sums: what follows from them holds if no client lies.
    held: bool = True

    @property
    def note(self) -> str | None:
        """What a reader must know, if anything."""
        if not self.held:
            return "nobody sees the numbers of a single client: all of this holds if no client lies"
        if self.share is None:
            return (
                "nothing limits how many records one client counts, so that a lie or a fault of "
                "one client may decide: most_records= or protects=WholeClients(…) limits them"
            )
        if self.share > _LARGE:
            return f"{self.holder}; most_records= could limit that"
        return None

    @property
    def holder(self) -> str:
        """Say how much the largest client holds."""
        if self.share is None:
            return "nothing limits how many records one client counts"
        part = f"{100 * self.share:.0f} % of the records"
        return (
            f"one client may hold {part}" if not self.name else f"client {self.name} holds {part}"
        )

    def __str__(self) -> str:
        if self.most_records is None:
            return "nothing limits how many records one client counts"
        return f"one client counts at most {self.most_records:,} records"


@dataclass(frozen=True)
class Protection:
    """How counts were protected."""

    trust: str  # Trust model; how counts became a sum; noise
    aggregation: str
    mechanism: str
    private: bool  # False if a simulation asked for seeded noise, which protects nobody
    noise: float  # Standard deviation of the noise, in records for each cell
    visibility: Visibility  # Who saw what, as the trust model says


@dataclass(frozen=True, kw_only=True, repr=False)
class Envelope(Viewed):
    """What reports of checks, of a predictor's rounds and of references share. All is public."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True}
    kind: ClassVar[str]
    """What the report is of."""
    _header: ClassVar[dict[str, Any]] = {}
    """What its JSON form says beside schema and kind."""
    _derived: ClassVar[frozenset[str]] = frozenset()
    """Names of what its JSON form says that follows from the rest."""

    started: str  # UTC, ISO 8601
    guarantee: Guarantee  # What was promised
    cohort: CohortSummary  # Whose answers are in it
    cost: CostSummary  # What it cost

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.started[:10]}: {self.summary}>"

    def content(self) -> dict[str, Any]:
        """Return what its JSON form says, but for the checksum."""
        return {"schema": SCHEMA, "kind": self.kind, **self._header, **asdict(self)}

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form, schema versioned, with its checksum."""
        content = self.content()
        return {**content, _CHECKSUM: _checksum(content)}

    def to_json(self) -> str:
        """Return the JSON text."""
        return json_text(self.to_dict(), indent=2, sort_keys=True)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls.of_content(content_of(values))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def of_content(cls, content: Mapping[str, Any]) -> Self:
        """Read what `content` says."""
        from pydantic import ValidationError  # takes long to load, as all of it

        header = {"schema": SCHEMA, "kind": cls.kind, **cls._header}
        if any(content.get(name) != expected for name, expected in header.items()):
            raise ValueError(f"not the report of a {cls.kind} in schema {SCHEMA}")
        values = {name: content[name] for name in content.keys() - header - cls._derived}
        try:
            reader = _reader(cls)  # type: ignore[arg-type]
            found: Self = reader.validate_json(json.dumps(values), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"the report's {where}: {first['msg']}") from None
        return found


def content_of(stored: object) -> dict[str, Any]:
    """Return what a stored report says; `ValueError` if that is not what was written."""
    if not isinstance(stored, Mapping):
        raise ValueError("a stored report is an object of named values")
    content = dict(stored)
    if content.pop(_CHECKSUM, None) != _checksum(content):
        raise ValueError("a stored report was damaged or changed: its checksum is another one")
    return content


def cost_of(stored: object, kind: str) -> CostSummary:
    """Read the cost alone of a stored report; `ValueError` if it is not one of this kind."""
    content = content_of(stored)
    if (content.get("schema"), content.get("kind")) != (SCHEMA, kind):
        raise ValueError(f"not the report of a {kind} in schema {SCHEMA}")
    try:
        return CostSummary(**content["cost"])
    except (KeyError, TypeError):
        raise ValueError("the report does not say what it cost") from None


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of a JSON form, as it is read again."""
    return sha256(json_text(content, sort_keys=True).encode()).hexdigest()


@cache
def _reader(report: type[Envelope]) -> TypeAdapter[Any]:
    # mypy takes the hash of a report for that of its class
    from pydantic import TypeAdapter

    return TypeAdapter(report)


R = TypeVar("R", bound=Envelope)
"""What a series is of."""


@dataclass(frozen=True)
class Point(Generic[R]):
    """One check or round in a series."""

    number: int  # From 1
    report: R | None  # None if nothing came out: it failed, or has not ended
    # Divergence, in nats, of those from whom the cohort was drawn, and of the very records that the
    # estimate is made from; where a simulation knows it
    population_truth: float | None = None
    cohort_truth: float | None = None
    # The same two of each column of a table
    truths: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    failure: str | None = None  # Why there is no report, where that is known
    started: str | None = None  # UTC, ISO 8601; by default as the report says
    ended: bool = True  # False if it runs, or was cut off

    def __post_init__(self) -> None:
        if self.started is None and self.report is not None:
            object.__setattr__(self, "started", self.report.started)
