"""The operator's file: TOML in, checked limits out."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from flwr_kld.arguments import keep, whole
from flwr_kld.messages.question import TRUST_MODELS
from flwr_kld.privacy.amounts import ATTO, NANO, limit
from flwr_kld.query import MOST_GROUPS
from flwr_kld.secure_aggregation import ClientPolicy, Collusion

_T = TypeVar("_T")
_DAY = 24 * 60 * 60
_LONGEST_PERIOD = 36_600
_MOST_EPSILON = 1_000_000


class GuardFileError(ValueError):
    """The guard file cannot be used. For the operator: it names keys and says what they take."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client's operator allows.

    Parameters
    ----------
    receipts : Path
        SQLite file of receipts.
    key : Path
        The node's Ed25519 key, 32 bytes; made on first use.
    trust : frozenset[str]
        Trust models that are answered.
    domains, references : frozenset[str] or None
        Fingerprints that are answered; None for any.
    epsilon, delta : int
        Most that one check may spend, in 10**-9 nats and in 10**-18.
    min_cohort : int
        Fewest clients asked in a check.
    max_groups : int
        Most groups of clients or records that a check may count apart.
    period : int
        Seconds that a spend counts for.
    period_epsilon, period_delta : int
        Most that all checks of a period may spend together.
    secure_sum : ClientPolicy
        Minimums of a secure sum.
    stable_record_ids : bool
        Whether a record keeps its id in every check: then checks over different buckets of records
        are not added up.
    """

    receipts: Path
    key: Path
    trust: frozenset[str]
    domains: frozenset[str] | None
    references: frozenset[str] | None
    epsilon: int
    delta: int
    min_cohort: int
    period: int
    period_epsilon: int
    period_delta: int
    secure_sum: ClientPolicy
    stable_record_ids: bool = False
    max_groups: int = MOST_GROUPS

    def __post_init__(self) -> None:
        keep(
            self,
            epsilon=whole("epsilon", self.epsilon, least=1),
            delta=whole("delta", self.delta, least=0),
            min_cohort=whole("min_cohort", self.min_cohort, least=1, unit="clients"),
            period=whole("period", self.period, least=1, unit="seconds"),
            period_epsilon=whole("period_epsilon", self.period_epsilon, least=1),
            period_delta=whole("period_delta", self.period_delta, least=0),
            max_groups=whole("max_groups", self.max_groups, least=1, most=MOST_GROUPS),
        )


def read_limits(path: str | Path) -> Limits:
    """Read a guard file.

    Raises
    ------
    GuardFileError
        If the file cannot be read, has a key that is not known, lacks one, or gives a value that
        the key does not take.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=Decimal)
    except OSError as error:
        raise GuardFileError(f"the guard file cannot be read ({type(error).__name__})") from None
    except ValueError as error:
        raise GuardFileError(f"the guard file is no TOML: {error}") from None
    top = _Table("", raw)
    allow, check, period = (
        _Table(name, top.take(name, _table)) for name in ("allow", "check", "period")
    )
    sums = _Table("secure_sum", top.take("secure_sum", _table, {}))

    def place(value: object) -> Path:
        return path.parent / _text(value)

    epsilon, delta = _amount(NANO, 1, _MOST_EPSILON), _amount(ATTO, 0, 1)
    limits = Limits(
        receipts=top.take("receipts", place),
        key=top.take("key", place),
        trust=allow.take("trust", _trust),
        domains=allow.take("domains", _fingerprints),
        references=allow.take("references", _fingerprints),
        epsilon=check.take("max_epsilon", epsilon),
        delta=check.take("max_delta", delta),
        min_cohort=check.take("min_cohort", _count),
        max_groups=check.take("max_groups", _count, MOST_GROUPS),
        period=_days(period),
        period_epsilon=period.take("max_epsilon", epsilon),
        period_delta=period.take("max_delta", delta),
        secure_sum=_policy(sums),
        stable_record_ids=period.take("stable_record_ids", _yes_or_no, False),
    )
    for table in (top, allow, check, period, sums):
        table.end()
    return limits


class _Table:
    """One table of the file, emptied key by key: whatever is left is unknown."""

    def __init__(self, name: str, raw: Mapping[str, Any]) -> None:
        self._prefix, self._left = f"{name}." if name else "", dict(raw)

    def take(self, key: str, read: Callable[[object], _T], default: object = None) -> _T:
        """Read a key; without a default it must be there."""
        value = self._left.pop(key, default)
        if value is None:
            raise GuardFileError(f"{self._prefix}{key} is missing")
        try:
            return read(value)
        except ValueError as error:
            raise GuardFileError(f"{self._prefix}{key} {error}") from None

    def has(self, key: str) -> bool:
        """Whether the key is there and was not taken."""
        return key in self._left

    def end(self) -> None:
        """Refuse keys that nobody took."""
        if self._left:
            raise GuardFileError(f"unknown key {self._prefix}{sorted(self._left)[0]}")


def _policy(sums: _Table) -> ClientPolicy:
    given: dict[str, Any] = {
        name: sums.take(name, read) for name, read in _SECURE_SUM.items() if sums.has(name)
    }
    try:
        return ClientPolicy(**given)
    except ValueError as error:
        raise GuardFileError(f"secure_sum: {error}") from None


def _days(period: _Table) -> int:
    """Read ``period.days`` as seconds."""

    def days(value: object) -> int:
        number = _number(value)
        if not 0 < number <= _LONGEST_PERIOD:
            raise ValueError(f"is a number of days, > 0 and at most {_LONGEST_PERIOD}")
        return -int(-number * _DAY // 1)

    return period.take("days", days)


def _table(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("is a table")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError("is the path of a file")
    return value


def _number(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError("is a number")
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError("is a finite number")
    return number


def _count(value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("is a whole number of at least 1")
    return value


def _yes_or_no(value: object) -> bool:
    if type(value) is not bool:
        raise ValueError("is true or false")
    return value


def _fraction(value: object) -> float:
    number = _number(value)
    if not 0 <= number < 1:
        raise ValueError("is a fraction in [0, 1)")
    return float(number)


def _amount(digits: int, least: int, most: int) -> Callable[[object], int]:
    """Read an amount of at least `least` units of 10**-digits and at most `most`."""

    def read(value: object) -> int:
        number = _number(value)
        if not 0 <= number <= most or limit(number, digits) < least:
            raise ValueError(f"is {'a positive number' if least else 'at least 0'}, up to {most}")
        return limit(number, digits)

    return read


def _trust(value: object) -> frozenset[str]:
    if not isinstance(value, list) or not value or not all(v in TRUST_MODELS for v in value):
        raise ValueError(f"is a list of some of {', '.join(TRUST_MODELS)}")
    return frozenset(value)


def _fingerprints(value: object) -> frozenset[str] | None:
    if value == "any":
        return None
    if not isinstance(value, list) or not value or not all(map(_is_fingerprint, value)):
        raise ValueError('is a list of fingerprints (64 hexadecimal digits), or "any"')
    return frozenset(value)


def _is_fingerprint(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _collusion(value: object) -> Collusion:
    try:
        return Collusion(str(value))
    except ValueError:
        raise ValueError(f"is one of {', '.join(Collusion)}") from None


_SECURE_SUM: dict[str, Callable[[object], object]] = {
    "min_cohort": _count,
    "min_survivors": _count,
    "min_neighbours": _count,
    "min_threshold": _fraction,
    "corrupted": _fraction,
    "collusion": _collusion,
    "security_bits": _count,
}
