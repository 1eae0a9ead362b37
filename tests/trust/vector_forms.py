"""How a message stands in a vector: a text as it is, a record with the type of each value."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from flwr_kld.ask.period import Period
from flwr_kld.common.strict_model import Model
from flwr_kld.trust.envelopes import Answer
from flwr_kld.trust.terms import Terms

GONE = object()
"""In place of a field that a tampered message lacks."""


def said_otherwise(terms: Terms, config: dict[str, Any]) -> Terms:
    """The same terms, but what goes over the wire is another message."""

    class Otherwise(Terms, what="terms"):
        def to_config(self) -> dict[str, Any]:
            return config

    return Otherwise(**{one.name: getattr(terms, one.name) for one in fields(terms)})


def claim(**parts: Any) -> str:
    """A guarantee as terms claim it, some of its parts otherwise."""
    told = {"epsilon": 1.0, "delta": 0.0, "protects": "record", **parts}
    return json.dumps(told, sort_keys=True, separators=(",", ":"))


def counts(period: Period | None = None, **allotment: Any) -> str:
    """What terms ask for, in whole counts of one column; some of it otherwise."""
    told = {"counts": [1], "alike": 0, **allotment}
    return json.dumps(
        {"allotment": told, "period": period and vars(period), "rounded": False},
        sort_keys=True, separators=(",", ":"),
    )  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A kind of message: values that are written, and what is done to the first to tamper with it.

    A change is of fields, or makes another text of the text.
    """

    model: type[Model]
    values: dict[str, Model]
    tampered: dict[str, dict[str, Any] | Callable[[str], str]]

    @property
    def is_text(self) -> bool:
        return self.model in (Answer, Period)

    def write(self, value: Model) -> Any:
        return value.to_json() if self.is_text else typed(value.to_config())

    def read(self, message: Any) -> Model:
        """Read what stands in a vector."""
        if self.is_text:
            return self.model.from_json(message)
        return self.model.from_config({name: plain(value) for name, value in message.items()})

    def tamper(self, change: dict[str, Any] | Callable[[str], str]) -> Any:
        message = self.write(next(iter(self.values.values())))
        if callable(change):
            return change(message)
        raw = json.loads(message) if self.is_text else message
        raw |= change if self.is_text else typed(change)
        raw = {name: value for name, value in raw.items() if value is not GONE}
        return json.dumps(raw, sort_keys=True, separators=(",", ":")) if self.is_text else raw


_TYPES = {bool: "bool", int: "sint64", float: "double", str: "string", bytes: "bytes"}


def typed(values: dict[str, Any]) -> dict[str, Any]:
    """Name the types of a record's values as Flower's protocol does."""
    return {name: value if value is GONE else _typed(value) for name, value in values.items()}


def _typed(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {f"{_TYPES[type(value[0])]}-list": value}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    odd = isinstance(value, float) and not math.isfinite(value)
    return {_TYPES[type(value)]: repr(value) if odd else value}


def plain(value: dict[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "double":
        return float(content)
    return bytes.fromhex(content) if kind == "bytes" else content
