"""Everything that a lying server can do to one honest message, drawn from a seed."""

import copy
import json
import random
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from flwr_kld.ask.plan import plan_fingerprint
from flwr_kld.secure_sums.session import Session
from flwr_kld.trust.terms import Terms

NUMBERS = [0, 1, -1, 2, 3, 10, 11, 255, 2**16, 2**31 - 1, 2**31, 2**63 - 1, -(2**63)]
REALS = [
    0.0, 1.0, -1.0, 0.5, 1.5, 1e-9, 1e-300, 5e-324, 1e9, 1e300,
    float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
TEXTS = ["", "0", "00", "1", "record", "client", "trusted", "local",
         "distributed", "trusted-aggregator", "two-aggregators", "null", "{}", "[]", "x" * 5000,
         "é"]  # fmt: skip
BYTES = [b"", b"\x00", b"\xff" * 40, b"kss0"]


def mutate(message: Message, others: list[Message], rng: random.Random) -> None:
    """Make one to three changes to a message; `others` lend their fields and records."""
    content = message.content
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _change(content, rng.choice(others).content, rng)
    if rng.random() < 0.7:
        _make_consistent(content, rng)


def _make_consistent(content: RecordDict, rng: random.Random) -> None:
    """Let a liar's fingerprints and sessions fit what it changed, as far as that can be."""
    try:
        asked = content["terms"]
        if rng.random() < 0.8:
            asked["check"] = f"{rng.randrange(2**64):016x}"  # what was asked before is refused
        cell_of = np.frombuffer(zlib.decompress(asked["wire"]), dtype="<i4").astype(np.int32)
        asked["plan"] = plan_fingerprint(asked["domain"], cell_of)
        if "phase" in content:
            fit_sessions(content)
    except Exception:  # what is not readable stays as it is
        return


def fit_sessions(content: RecordDict) -> None:
    """Let the sessions of secure sums fit the terms beside them.

    Raises
    ------
    ValueError
        If these are not readable.
    """
    terms = Terms.from_config(content["terms"])
    for member, payload in content["phase"].items():
        session = replace(
            Session.from_bytes(payload), check=terms.check, terms=terms.fingerprint,
            length=terms.length,
        )  # fmt: skip
        content["phase"][member] = session.to_bytes()


def _change(content: RecordDict, other: RecordDict, rng: random.Random) -> None:
    if not content:
        return
    name = rng.choice(list(content))
    record = content[name]
    kind = rng.random()
    if kind < 0.04:
        del content[name]
    elif kind < 0.08:
        content[name] = rng.choice([ConfigRecord(), MetricRecord({"check": 1})])
    elif kind < 0.14:
        donor = rng.choice(list(other))
        content[donor] = copy.deepcopy(other[donor])
    elif record:
        nested = [k for k, value in record.items() if str(value)[:1] == "{"]
        key = rng.choice([*record, *5 * nested])  # a text with fields counts for its fields
        _change_field(record, key, other.get(name), rng)


def _change_field(record: Any, key: str, other: Any, rng: random.Random) -> None:
    kind = rng.random()
    try:
        if kind < 0.06:
            del record[key]
        elif kind < 0.12:
            record[rng.choice([*TEXTS, key + "0", key.upper()])] = record[key]
        elif kind < 0.24 and other and key in other:
            record[key] = copy.deepcopy(other[key])
        else:
            record[key] = changed(record[key], rng)
    except (TypeError, ValueError):  # Flower itself would not carry it
        return


def changed(value: Any, rng: random.Random) -> Any:
    """Another value in the place of one, of its type or of another."""
    if rng.random() < 0.15:
        return rng.choice([*NUMBERS, *REALS, *TEXTS, *BYTES, True, False, []])
    change: dict[type, Callable[[], Any]] = {
        bool: lambda: not value,
        int: lambda: rng.choice([*NUMBERS, value + 1, value - 1, 2 * value, float(value)]),
        float: lambda: rng.choice([*REALS, value * 2, value / 2, value * 1.001, -value]),
        str: lambda: _text(value, rng),
        bytes: lambda: _bytes(value, rng),
        list: lambda: _list(value, rng),
        dict: lambda: {**value, **_entry(value, rng)},
        type(None): lambda: rng.choice([0, "", {}]),
    }
    return change[type(value)]()


def _entry(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    if not value or rng.random() < 0.1:
        return {"more": 1}
    key = rng.choice(list(value))
    return {key: changed(value[key], rng)}


def _text(value: str, rng: random.Random) -> str:
    if value[:1] in ("{", "[", "n") and rng.random() < 0.9:
        try:
            raw = changed(json.loads(value), rng)
            return json.dumps(raw, sort_keys=True, separators=(",", ":"))
        except (TypeError, ValueError):
            pass
    return rng.choice([*TEXTS, value + "0", value[:-1], value.upper(), value[::-1]])


def _bytes(value: bytes, rng: random.Random) -> bytes:
    if not value:
        return b"\x01"
    place = rng.randrange(len(value))
    flipped = bytes([value[place] ^ 1 << rng.randrange(8)])
    return rng.choice(
        [value[:place], value + b"\x00", value[:place] + flipped + value[place + 1 :], *BYTES]
    )


def _list(value: list[Any], rng: random.Random) -> list[Any]:
    return rng.choice([[], value * 2, value[1:], [*value, *value[:1]], value[::-1],
                       [changed(entry, rng) for entry in value]])  # fmt: skip
