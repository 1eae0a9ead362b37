"""Stored reports of earlier versions, in the form that this one reads.

Schema 3 had no tables. Until schema 2 all numbers of a check lay side by side; rounds and
references had schemas of their own, named after their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_GUARANTEE = ("epsilon", "delta", "adjacency", "unit")
_COHORT = ("asked", "survivors", "dropouts")
_PROTECTION = ("trust", "aggregation", "mechanism", "private", "noise", "sight")
_READING = (
    "estimate", "theta", "estimator", "target", "sampling", "monte_carlo", "privacy", "records",
    "note", "outside", "movements", "candidates",
)  # fmt: skip
_COMPARED = ("domain", "reference", "plan", "cells")
_COST = {
    "epsilon": "delivered", "seconds": "seconds", "left": "epsilon_left",
    "budget": "epsilon_budget", "population": "population", "bytes_down": "bytes_down",
    "bytes_up": "bytes_up",
}  # fmt: skip
_LEARNT = (
    "weights", "mixture", "leader", "log_odds", "swing", "outlasts", "risk_bound", "reports",
)  # fmt: skip


def brought_up(values: object) -> dict[str, Any]:
    """Return a stored report in the present schema; what is in no known one, as it is."""
    if not isinstance(values, Mapping):
        raise ValueError("a stored report is an object of named values")
    old = dict(values)
    schema = old.get("schema")
    bring_up = _EARLIER.get(schema) if isinstance(schema, int | str) else None
    if bring_up is None:
        return old
    del old["schema"]
    try:
        present = bring_up(old)
    except KeyError as error:
        raise ValueError(f"the stored report of schema {schema} has no {error}") from None
    if old:
        raise ValueError(f"the stored report of schema {schema} has other values, too")
    return {"schema": 4, **present}


def _check(old: dict[str, Any]) -> dict[str, Any]:
    for name, unsaid in (
        ("target", "cohort"),  # what all estimators were about
        ("aggregation", "plain-sum"),
        ("delivered", old["epsilon"]),
        ("movements", []),
        ("candidates", {}),
        *dict.fromkeys(("note", "key", "population", "epsilon_left", "epsilon_budget")).items(),
        *dict.fromkeys(("verdict", "outside", "sight")).items(),
    ):
        old.setdefault(name, unsaid)
    return {
        "kind": "check",
        **_taken(old, ("direction", "check", "started", "key", "verdict")),
        "reading": _taken(old, _READING),
        "guarantee": _taken(old, _GUARANTEE),
        "protection": _taken(old, _PROTECTION),
        "cohort": _taken(old, _COHORT),
        "compared": _taken(old, _COMPARED),
        "cost": {name: old.pop(before) for name, before in _COST.items()},
    }


def _round(old: dict[str, Any]) -> dict[str, Any]:
    """Bring up a predictor's round; the first ones had pure epsilon and no ledger."""
    epsilon = old.pop("epsilon")
    old.setdefault("swing", 2 * epsilon)
    return {
        "kind": "round",
        **_taken(old, ("name", "round", "started")),
        "reading": _taken(old, _LEARNT),
        "guarantee": {
            "epsilon": epsilon, "delta": old.pop("delta", 0.0), "adjacency": "replace-one",
            "unit": "client",
        },
        "cohort": {
            "asked": old.pop("asked"), "survivors": old.pop("taken"),
            "dropouts": old.pop("rejected"),
        },
        "cost": {
            "epsilon": epsilon, "seconds": old.pop("seconds"),
            "left": old.pop("epsilon_left", None), "budget": old.pop("epsilon_budget", None),
        },
    }  # fmt: skip


def _reference(old: dict[str, Any]) -> dict[str, Any]:
    old.update(noise=None, sight=None)
    return {
        "kind": "reference",
        "started": old.pop("started"),
        "reading": _taken(old, ("reference", "domain", "records")),
        "guarantee": _taken(old, _GUARANTEE),
        "protection": _taken(old, _PROTECTION),
        "cohort": _taken(old, _COHORT),
        "cost": {"epsilon": old.pop("delivered"), "seconds": old.pop("seconds")},
    }


def _without_columns(old: dict[str, Any]) -> dict[str, Any]:
    """Take a report of schema 3 as it is: there were no tables."""
    return _taken(old, tuple(old))


def _taken(old: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: old.pop(name) for name in names}


_EARLIER: dict[int | str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    1: _check,
    2: _check,
    3: _without_columns,
    "predictor 1": _round,
    "predictor 2": _round,
    "reference 1": _reference,
}
