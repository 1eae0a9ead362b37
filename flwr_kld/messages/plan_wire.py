"""A query plan as an aggregator receives it, to hold clients' counts to its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Json

from flwr_kld.codec.model import Model
from flwr_kld.domain.base import domain_from_spec
from flwr_kld.errors import QueryRefused
from flwr_kld.messages.question import VERSION, Question
from flwr_kld.query.plan import HEAD, QueryPlan
from flwr_kld.reference import Reference

_ROUNDING = 1e-9


@dataclass(frozen=True)
class PlanMessage(Model, what="the query plan", version=VERSION, refused=QueryRefused):
    """What a `Question` does not say of its plan."""

    domain: Json[dict[str, Any]]  # ``Domain.spec``
    probabilities: bytes  # Of the reference, little-endian float64
    weight: bytes  # Of each cell, little-endian float64

    @classmethod
    def of(cls, plan: QueryPlan) -> PlanMessage:
        """Describe a plan."""
        reference = plan.reference
        return cls(
            domain=reference.domain.spec(),
            probabilities=reference.probabilities.astype("<f8").tobytes(),
            weight=plan.weight.astype("<f8").tobytes(),
        )


def plan_of(message: PlanMessage, question: Question) -> QueryPlan:
    """Rebuild a question's plan and hold it against the question's fingerprints.

    Inclusion and strata, which estimators need and releases do not, are left at their defaults.
    """
    try:
        domain = domain_from_spec(message.domain)
        reference = Reference(domain, _floats(message.probabilities))
        weight = _floats(message.weight)
        cell_of = question.cell_of(domain.sizes)
    except (TypeError, ValueError, RecursionError):
        raise QueryRefused("the aggregator cannot read the query plan") from None
    asked = (question.domain, question.reference, question.columns)
    if (domain.fingerprint, reference.fingerprint, domain.per_record) != asked:
        raise QueryRefused("the aggregator was sent another reference than the clients")
    if weight.shape != (question.cells,) or not ((weight >= 0) & (weight <= 1 + _ROUNDING)).all():
        raise QueryRefused("the query plan's weights are out of range")
    plan = QueryPlan(
        reference,
        cell_of,
        weight,
        inclusion=np.ones(question.cells),
        stratum=np.full(question.cells, HEAD),
        selection=question.selection,
        scores=question.scores,
    )
    if (plan.mass[weight > 0] <= 0).any():
        raise QueryRefused("the query plan scores a cell that the reference says is impossible")
    return plan


def _floats(raw: bytes) -> NDArray[np.float64]:
    return np.frombuffer(raw, dtype="<f8").astype(np.float64)
