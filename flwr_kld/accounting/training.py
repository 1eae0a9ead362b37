"""The spend of a training, from the state that Flower's `RdpAccountant` saves.

Flower's own classes are not needed to read it. Proof note: ``docs/proofs/composition.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from flwr_kld._extras import require
from flwr_kld.accounting.budget import NANO, UNBOUNDED, Budget
from flwr_kld.accounting.cost import Cost
from flwr_kld.kernel import Guarantee, Unit
from flwr_kld.kernel.promise import Adjacency

_SCHEMA = 1
_ADJACENCY = {
    "add-or-remove-one": Adjacency.ADD_REMOVE,
    "replace-one": Adjacency.REPLACE_ONE,
}
_HALVINGS = 200


def training_cost(state: Mapping[str, Any], budget: Budget) -> Cost:
    """Return what a training has cost every client up to this state."""
    # Its Rényi curve is turned into one (epsilon, delta), delta being half of the budget's in the
    # budget's own adjacency. From there on it composes like any other release.
    if not budget.atto_delta:
        raise ValueError(
            f"a training needs delta > 0, but the budget of {budget.population!r} has none"
        )
    accountant, adjacency = _replayed(state)
    delta = budget.delta / 2
    for _ in range(_HALVINGS):
        epsilon = float(accountant.get_epsilon(delta))
        epsilon = min(max(epsilon, 10**-NANO), UNBOUNDED / 10**NANO)
        cost = Cost.claimed("training", Guarantee(epsilon, delta, adjacency, Unit.CLIENT))
        if cost.toward(budget).delta <= math.ceil(budget.atto_delta / 2):
            return cost
        delta /= 2
    raise ValueError("the training guarantees nothing at the budget's delta")


def releases_of(state: Mapping[str, Any]) -> int:
    """Return how many releases a state has composed."""
    return sum(int(part["count"]) for part in state["compositions"])


def _replayed(state: Mapping[str, Any]) -> tuple[Any, Adjacency]:
    """Compose the state's events again."""
    # Imported here: it takes two seconds, and few ledgers hold a training.
    dp = require("dp_accounting", extra="training")
    if state.get("schema_version") != _SCHEMA or state.get("backend") != "rdp":
        raise ValueError(
            f"not the state of Flower's RdpAccountant in schema {_SCHEMA}: pass what its "
            "state_dict() returns"
        )
    try:
        config = state["config"]
        relation = dp.privacy_accountant.NeighboringRelation[
            config["neighboring_relation"].replace("-", "_").upper()
        ]
        adjacency = _ADJACENCY[config["neighboring_relation"]]
        accountant = dp.rdp.RdpAccountant(
            orders=[float(order) for order in state["orders"]], neighboring_relation=relation
        )
        for part in state["compositions"]:
            event = _event(dp.dp_event, config["sampling_method"], **part["event"])
            accountant.compose(event, part["count"])
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        dp.privacy_accountant.UnsupportedEventError,
    ) as error:
        raise ValueError("the accountant's state is not readable") from error
    return accountant, adjacency


def _event(
    events: Any, sampling: str, *, noise_multiplier: float, sample_size: int, population_size: int
) -> Any:
    gaussian = events.GaussianDpEvent(noise_multiplier)
    if sampling == "poisson":
        return events.PoissonSampledDpEvent(sample_size / population_size, gaussian)
    if sampling == "without-replacement":
        return events.SampledWithoutReplacementDpEvent(population_size, sample_size, gaussian)
    if sampling == "no-amplification":
        return gaussian
    raise ValueError(f"unknown sampling method {sampling!r}")
