"""Whom a check charges, and how much."""

from __future__ import annotations

from flwr_kld.ask.cohort import AskedClients
from flwr_kld.ledger import Charge, Cost
from flwr_kld.trust import Trust


def charge_of(trust: Trust, asked: AskedClients) -> Charge:
    """Return what is reserved before a check: its release at its dearest."""
    cost, least = trust.cost(), Cost.of(trust.event(trust.min_clients))
    if cost.protects != least.protects or cost.epsilon < least.epsilon or cost.delta < least.delta:
        raise ValueError(
            f"{type(trust).__name__}(…) charges {cost}, and its event costs {least}: leave cost as "
            "it is"
        )
    return Charge(cost, map(str, asked.participants))
