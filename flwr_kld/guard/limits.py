"""Reads the operator's guard file: TOML in, validated limits out."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from pydantic import AfterValidator, Field, Strict

from flwr_kld.common.strict_model import InvalidValue, Model, must
from flwr_kld.guard.secure_sum_policy import ClientPolicy, Collusion
from flwr_kld.kernel.promise import Protected
from flwr_kld.trust.terms import TRUST_MODELS

_DAY = 24 * 60 * 60
_LONGEST_PERIOD = 36_600
_MOST_EPSILON = 1_000_000
_LEAST = 1e-300
"""Smaller numbers are 0."""


class GuardFileError(ValueError):
    """The guard file cannot be used. For the operator: it names keys and says what they take."""


def _amount(least: float, most: int) -> AfterValidator:
    """Read an amount, exactly as it stands there."""

    def read(value: object) -> Fraction:
        if _is_number(value) and least <= value <= most:
            return Fraction(value) if value > _LEAST else Fraction(0)
        bare = " without quotes" if isinstance(value, str) else ""
        raise InvalidValue(
            f"be {'a positive number' if least else 'a number, at least 0'}{bare}, up to {most}"
        )

    return AfterValidator(read)


def _is_number(value: object) -> TypeGuard[int | Decimal]:
    return type(value) is int or (isinstance(value, Decimal) and value.is_finite())


def _are_fingerprints(value: object) -> bool:
    if not isinstance(value, list):
        return value == "any"
    return bool(value) and all(
        isinstance(one, str) and re.fullmatch("[0-9a-f]{64}", one) for one in value
    )


_Path = Annotated[str, Strict(), must("be the path of a file", lambda p: p and "\0" not in p)]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Epsilon = Annotated[Any, _amount(1e-9, _MOST_EPSILON)]
_Delta = Annotated[Any, _amount(0, 1)]
_Fraction = Annotated[
    Any,
    must("be a fraction in [0, 1)", lambda n: _is_number(n) and 0 <= n < 1),
    AfterValidator(float),
]
_Days = Annotated[
    Any,
    must(
        f"be a number of days, above 0 and at most {_LONGEST_PERIOD}",
        lambda n: _is_number(n) and 0 < n <= _LONGEST_PERIOD,
    ),
]
_Fingerprints = Annotated[
    Any,
    must('be a list of fingerprints (64 hexadecimal digits), or "any"', _are_fingerprints),
    AfterValidator(lambda given: None if given == "any" else frozenset(given)),
]
_Columns = Annotated[
    Any,
    must(
        'be a list of names of columns, or "any"',
        lambda given: (
            given == "any"
            or (isinstance(given, list) and all(isinstance(name, str) for name in given))
        ),
    ),
    AfterValidator(lambda given: None if given == "any" else frozenset(given)),
]
_Trusts = Annotated[
    Any,
    must(
        f"be a list of some of {', '.join(TRUST_MODELS)}",
        lambda given: isinstance(given, list) and given and all(t in TRUST_MODELS for t in given),
    ),
    AfterValidator(frozenset),
]
_Protects = Annotated[
    Any, must('be "record" or "client"', lambda given: given in ("record", "client"))
]
_DEFAULT = ClientPolicy()


@dataclass(frozen=True, kw_only=True)
class Allowed(Model, what="allow"):
    """Which checks are answered at all."""

    trust: _Trusts  # Trust models
    domains: _Fingerprints  # None for any
    plans: _Fingerprints  # Of counts; None for any
    discovery: _Columns = frozenset()  # Columns whose unlisted labels may be asked for; or None


@dataclass(frozen=True, kw_only=True)
class OneCheck(Model, what="check"):
    """What one check may spend on what is protected, and must have."""

    max_epsilon: _Epsilon  # In nats
    max_delta: _Delta
    min_asked: _Count  # Fewest clients


@dataclass(frozen=True, kw_only=True)
class Period(Model, what="period"):
    """What all checks of a period may spend together."""

    days: _Days
    max_epsilon: _Epsilon
    max_delta: _Delta

    @property
    def seconds(self) -> int:
        """How long a spend counts."""
        return max(1, int((self.days * Decimal(_DAY)).to_integral_value(ROUND_CEILING)))


@dataclass(frozen=True, kw_only=True)
class Training(Period, what="training"):
    """How many rounds of training a period may have, and what each of them may spend."""

    max_rounds: _Count
    own_clipping_norm: _Epsilon = None  # Of updates to which the node itself adds noise


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client's operator allows."""

    receipts: Path  # SQLite file of receipts
    key: Path  # The node's Ed25519 key, 32 bytes; made on first use
    protects: Protected  # Whom all amounts are for: checks that protect the other are refused
    allow: Allowed
    check: OneCheck
    period: Period
    secure_sum: ClientPolicy  # Minimums of a secure sum
    training: Training | None = None  # None to refuse every round


@dataclass(frozen=True, kw_only=True)
class _SecureSum(Model, what="secure_sum"):
    min_asked: _Count = _DEFAULT.min_asked
    min_clients: _Count = _DEFAULT.min_clients
    min_neighbours: _Count = _DEFAULT.min_neighbours
    min_threshold: _Fraction = _DEFAULT.min_threshold
    corrupted: _Fraction = _DEFAULT.corrupted
    collusion: Collusion = _DEFAULT.collusion
    security_bits: _Count = _DEFAULT.security_bits


@dataclass(frozen=True, kw_only=True)
class _File(Model, what="the guard file", refused=GuardFileError):
    receipts: _Path
    key: _Path
    allow: Allowed
    check: OneCheck
    period: Period
    protects: _Protects = "record"
    secure_sum: _SecureSum = field(default_factory=_SecureSum)
    training: Training | None = None


def read_limits(path: str | Path) -> Limits:
    """Read a guard file.

    Raises
    ------
    ValueError
        If it cannot be read, or a key is unknown, missing or has a bad value; says which.
    """
    path = Path(path)
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=_number)
    except OSError as error:
        raise GuardFileError(f"the guard file cannot be read ({type(error).__name__})") from None
    except ValueError as error:
        raise GuardFileError(f"the guard file is not a valid TOML file: {error}") from None
    file = _File.from_file(raw)
    try:
        policy = ClientPolicy(**vars(file.secure_sum))
    except ValueError as error:
        raise GuardFileError(f"the guard file: secure_sum: {error}") from None
    return Limits(
        receipts=path.parent / file.receipts,
        key=path.parent / file.key,
        protects=file.protects,
        allow=file.allow,
        check=file.check,
        period=file.period,
        secure_sum=policy,
        training=file.training,
    )


def _number(text: str) -> Decimal:
    """Read a number; one beyond any exponent becomes NaN, which no key takes."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("nan")
