"""Dataclasses that are read strictly: no text is taken for a number, and no True for 1."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
)
from pydantic import ValidationError as Invalid

from flwr_kld.kernel.arguments import InvalidArgument
from flwr_kld.kernel.promise import Allotment, Guarantee, WholeClients

NonNegative = Annotated[int, Strict(), Field(ge=0)]
_PLAIN = frozenset({str, bytes, bool, int, float, list})
"""What a Flower record holds as it is."""
_LONGEST_KEPT = 4096
"""List that is kept after it was read: what a client remembers must not depend on a server."""


class DecodingError(ValueError):
    """A text or record cannot be read; the message names the field and never quotes a value."""


class InvalidValue(ValueError):
    """A value has its type and breaks a rule; the message states the rule, never the value."""


def must(expected: str, holds: Callable[[Any], bool]) -> AfterValidator:
    """Return a mark for a field's type: its values *should* ..., in these words."""

    def check(value: Any) -> Any:
        if not holds(value):
            raise InvalidValue(expected)
        return value

    return AfterValidator(check)


class Model:
    """Base of the frozen dataclasses that cross a wire or touch a disk."""

    # In a Flower record a field that is not plain is a JSON text, declared as pydantic's ``Json``.

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", allow_inf_nan=False)
    _what: ClassVar[str]
    _version: ClassVar[int | None]
    _refused: ClassVar[type[ValueError]]
    _kept: ClassVar[bool]

    def __init_subclass__(
        cls,
        *,
        what: str,
        version: int | None = None,
        refused: type[ValueError] = DecodingError,
        kept: bool = False,  # whether the last ones are, as many clients are told the same
    ) -> None:
        cls._what, cls._version, cls._refused, cls._kept = what, version, refused, kept
        _KNOWN.update(cls.__annotations__)

    def to_config(self) -> dict[str, Any]:
        """Return the values of a Flower ConfigRecord."""
        return {
            name: _plain(value)
            if isinstance(value, Enum) or type(value) in _PLAIN
            else _text(value)
            for name, value in self._written().items()
        }

    def to_json(self) -> str:
        """Write the one text that has this meaning."""
        return _text(self._written())

    @classmethod
    def from_config(cls, config: object) -> Self:
        """Read the values of a Flower ConfigRecord."""
        values = dict(config.items()) if isinstance(config, Mapping) else {}
        if cls._kept:
            try:
                return cls._last_read(tuple((name, *_frozen(v)) for name, v in values.items()))
            except TypeError:  # it holds what no ConfigRecord does, or a long list
                pass
        return cls._of_values(values)

    @classmethod
    @lru_cache(maxsize=4)
    def _last_read(cls, items: tuple[tuple[str, Any, Any], ...]) -> Self:
        return cls._of_values(
            {name: list(v) if type(kind) is tuple else v for name, v, kind in items}
        )

    @classmethod
    def _of_values(cls, values: dict[str, Any]) -> Self:
        found = cls._read(values)
        for name, value in found.to_config().items():
            if name not in values:
                raise cls._refused(f"{cls._what}: {name} is missing")
            if not _same(value, values[name]):
                raise cls._refused(
                    f"{cls._what}: {name} is not of its type, or not in its one form"
                )
        return found

    @classmethod
    def from_json(cls, text: object) -> Self:
        """Read JSON."""
        found = cls._read(parsed(text))
        if found.to_json() != text:
            raise cls._refused(f"{cls._what}: not in the one form in which it is written")
        return found

    @classmethod
    def from_file(cls, values: dict[str, Any]) -> Self:
        """Read what somebody wrote by hand, in any order; a refusal names unknown keys too."""
        return cls._read(values, by_hand=True)

    @classmethod
    def _read(cls, values: object, *, by_hand: bool = False) -> Self:
        if not isinstance(values, dict):
            raise cls._refused(f"{cls._what}: not readable")
        if cls._version is not None:
            version = values.get("version")
            if type(version) is not int or version != cls._version:
                raise cls._refused(
                    f"{cls._what}: another version than {cls._version}; "
                    "install the same flwr-kld on both sides"
                )
            values = {name: value for name, value in values.items() if name != "version"}
        try:
            found: Self = cls._reader().validate_python(values)
            return found
        except Invalid as error:
            fault = _fault(error, by_hand)
        # Raised out here, it keeps nothing of the values.
        raise cls._refused(f"{cls._what}: {fault}")

    @classmethod
    @cache
    def _reader(cls) -> TypeAdapter[Any]:
        """Return pydantic's reader, made when the first value is read."""
        return TypeAdapter(cls)

    def _written(self) -> dict[str, Any]:
        version = {} if self._version is None else {"version": self._version}
        return version | _fields(self)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_GIVEN = re.compile(", (?:got|not|unable) ")
"""Where pydantic's words turn from what should be to what was given."""
_KNOWN = {
    "version",
    *Guarantee.__annotations__,
    *WholeClients.__annotations__,
    *Allotment.__annotations__,
}
"""Names of fields. What a sender names otherwise is not repeated to anybody."""


def _fields(one: Any) -> dict[str, Any]:
    """Return the values of a dataclass."""
    return {field.name: getattr(one, field.name) for field in fields(one)}


def parsed(text: object) -> object:
    """Read JSON; None for what is none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _text(value: object) -> str:
    return _ENCODER.encode(_plain(value))


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return _plain(_fields(value))
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value


def _frozen(value: Any) -> tuple[Any, Any]:
    """Return a value that can be hashed, and its form: True is not 1, and -0.0 is not 0.0."""
    if type(value) is list:
        if len(value) > _LONGEST_KEPT:
            raise TypeError
        return tuple(value), tuple(map(type, value))
    return value, repr(value) if type(value) is float else type(value)


def _same(written: Any, given: Any) -> bool:
    """Whether both are the same value in the same form: True is not 1, and -0.0 is not 0.0."""
    if type(written) is not type(given) or written != given:
        return False
    if isinstance(written, float):
        return repr(written) == repr(given)
    return not isinstance(written, list) or list(map(type, written)) == list(map(type, given))


def _fault(error: Invalid, by_hand: bool) -> str:
    """Say which field is unknown or wrong, and what it should be, in no words of a sender's."""
    faults = error.errors(include_url=False, include_input=False)
    # In a person's file, what is missing may be there, misspelt.
    misspelt = [one for one in faults if by_hand and one["type"] == "unexpected_keyword_argument"]
    first = (misspelt or faults)[0]
    kind, words, path = first["type"], first["msg"], []
    within = False
    """Whether the fault is in one of several forms, or under a name of the sender's."""
    for part in first["loc"]:
        if part in _KNOWN:
            path.append(str(part))
        elif not isinstance(part, int):  # not a place in a list
            within = True
            break
    if kind == "unexpected_keyword_argument":
        name = ".".join(map(str, first["loc"]))
        return f"unknown key {name}" if by_hand else "it has a field that is not known"
    expected = ""
    if kind == "value_error":  # of a constructor, whose words may quote the value
        cause = first["ctx"]["error"]
        if isinstance(cause, InvalidArgument):
            path += [cause.name] if cause.name not in path[-1:] else []
            expected = f"; it must be {cause.expected}"
        elif isinstance(cause, InvalidValue):
            expected = f"; it should {cause}"
    elif not within and " should " in words:
        expected = f"; it should {_GIVEN.split(words.partition(' should ')[2])[0]}"
    where = ".".join(path) or "what it says"
    if kind == "missing":
        return f"{where} is missing"
    if kind.endswith(("_type", "_parsing", "_from_float", "_unicode")):
        return f"{where} is not of its type{expected}"
    return f"{where} is out of range{expected}"
