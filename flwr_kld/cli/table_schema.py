"""A table of which only the schema is public, and made-up rows of it.

The file is a Table Schema as Frictionless Data defines it: ``fields`` with ``name``, ``type`` and
``constraints``.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.table import Table
from flwr_kld.domain.times import Times

_ROWS = 1000
_MONDAY = datetime(2024, 1, 1)


class _Constraints(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    minimum: float | str | None = None  # a date's is text
    maximum: float | str | None = None
    enum: list[str] | list[int] | None = Field(default=None, min_length=1)


class _Column(BaseModel):
    name: str = Field(min_length=1)
    type: str = "string"
    constraints: _Constraints = Field(default_factory=_Constraints)


class _Schema(BaseModel):
    fields: list[_Column] = Field(min_length=1)


def read_schema(file: Path, *, bins: int) -> tuple[Table, dict[str, list[Any]]]:
    """Choose a domain for each column that the schema describes, and make rows up.

    Numbers between a minimum and a maximum get bins of one width, texts with an ``enum`` and truth
    values labels, dates the weekday, and times the hour. The rows are even over each column's bins
    or labels: they show that checks run, and nothing about anybody.
    """
    try:
        schema = _Schema.model_validate(json.loads(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{file} is not a Table Schema: {place}: {first['msg']}") from None
    except ValueError as error:
        raise ValueError(f"{file} is not a Table Schema: {error}") from None
    names = [column.name for column in schema.fields]
    if len(set(names)) < len(names):
        raise ValueError(f"{file} names a column twice")
    chosen = {column.name: _domain_of(column, bins) for column in schema.fields}
    features = {name: found for name, found in chosen.items() if isinstance(found, Domain)}
    left_out = {name: found for name, found in chosen.items() if isinstance(found, str)}
    if not features:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ValueError(f"{file} describes no column that can be checked: {reasons}")
    rng = np.random.default_rng(0)  # an order of made-up rows
    rows = {}
    for name, domain in features.items():
        values = _values_of(domain)
        rows[name] = [values[i % len(values)] for i in rng.permutation(_ROWS).tolist()]
    return Table(features, left_out=left_out), rows


def _domain_of(column: _Column, bins: int) -> Domain | str:
    """Return a column's domain, or the reason why it has none."""
    allowed = column.constraints
    if allowed.enum is not None:
        return Labels(allowed.enum)
    if column.type == "boolean":
        return Labels(["False", "True"])
    if column.type in ("date", "datetime"):
        return Times("weekday" if column.type == "date" else "hour")
    if column.type not in ("number", "integer"):
        return f"its type {column.type!r} needs an enum of its values"
    low, high = allowed.minimum, allowed.maximum
    if not isinstance(low, float) or not isinstance(high, float) or low >= high:
        return "a number needs a minimum and a larger maximum"
    inner = np.linspace(low, high, bins + 1)[1:-1]
    if column.type == "integer":  # between whole numbers, as each has a bin
        inner = np.unique(np.ceil(inner) - 0.5)
        inner = inner[inner > low]
    return Binned(inner.tolist())


def _values_of(domain: Domain) -> list[Any]:
    """Return a value of each bin or label, 'other' and 'missing' left out."""
    if isinstance(domain, Labels):
        return list(domain.names)
    if isinstance(domain, Times):
        day = timedelta(days=1) if domain.by == "weekday" else timedelta(hours=1)
        return [(_MONDAY + i * day).isoformat() for i in range(domain.size - 1)]
    edges = np.asarray(domain.edges) if isinstance(domain, Binned) else np.zeros(1)
    width = edges[1] - edges[0] if len(edges) > 1 else 1.0
    return list(np.round([edges[0] - width / 2, *(edges + width / 2)], 6).tolist())
