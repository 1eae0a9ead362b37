"""Charges: what a release costs, and the clients that it asks.

A person's records are at one client, so releases to different clients compose in parallel (proof
note: ``docs/proofs/composition.md``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flwr_kld.kernel.arguments import as_tuple, instance, set_fields, text
from flwr_kld.ledger.cost import Cost


@dataclass(frozen=True)
class Charge:
    """The release of a check, and whom it asks.

    Parameters
    ----------
    cost : Cost
        Of the release.
    clients : Iterable[str]
        Stable and opaque names. A client that comes back under another name has another budget.

    Raises
    ------
    ValueError
        If there is no client, or one twice.
    """

    cost: Cost
    clients: tuple[str, ...]

    def __init__(self, cost: Cost, clients: Iterable[str]) -> None:
        set_fields(
            self,
            cost=instance("cost", cost, Cost, "a Cost, such as Cost.claimed(…)"),
            clients=tuple(text("a client's name", name) for name in as_tuple("clients", clients)),
        )
        if not self.clients or len(set(self.clients)) < len(self.clients):
            raise ValueError("name at least one client, and each once")
