"""The counts of each group of a column that is counted beside its groups, such as "site × age"."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.plan import HEAD, QueryPlan
from flwr_kld.reference import Reference
from flwr_kld.table.categories import Categories


def counts_by(noisy: NoisyCounts, by: str) -> Iterator[tuple[str, NoisyCounts]]:
    """Yield the counts of each group that the reference has, in cells of its own."""
    domain, plan = noisy.plan.reference.domain, noisy.plan
    if not isinstance(domain, Categories) or len(domain.domains) != 2 or by not in domain.domains:
        raise ValueError(f"a column has groups if it is of two features, one of them {by!r}")
    own = next(feature for name, feature in domain.domains.items() if name != by)
    axis = list(domain.domains).index(by)
    shape = [feature.size for feature in domain.domains.values()]
    p = np.moveaxis(plan.reference.probabilities.reshape(shape), axis, 0)
    cell_of = np.moveaxis(plan.cell_of.reshape(shape), axis, 0)
    for symbol, (mass, cells) in enumerate(zip(p, cell_of, strict=True)):
        if (mass > 0).any():
            reference = replace(plan.reference, domain=own, probabilities=mass / mass.sum())
            yield domain.domains[by].name_of(symbol), _of(noisy, reference, cells)


def _of(noisy: NoisyCounts, reference: Reference, cells: NDArray[np.int32]) -> NoisyCounts:
    """Return the counts in a group's own cells, shape [symbols]."""
    possible = reference.probabilities > 0
    listed = int(possible.sum())
    cell_of = np.full(len(cells), listed, dtype=np.int32)
    cell_of[possible] = np.arange(listed)
    values, weight = noisy.values[cells[possible]], reference.probabilities[possible]
    if listed < len(cells):
        values, weight = np.append(values, 0), np.append(weight, 0.0)
    ones, heads = np.ones(len(weight)), np.full(len(weight), HEAD)
    plan = QueryPlan(reference, cell_of, weight, ones, heads, allotment=noisy.plan.allotment)
    records = max(float(values.sum()), 1.0)
    return replace(noisy, values=values, records=records, plan=plan, part=True)
