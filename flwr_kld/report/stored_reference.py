"""References stored in the ledger: made in a ServerApp, and read on other machines.

JSON writes a float64 with as many digits as tell it from all others, so that the reference which is
read has the fingerprint of the one that was kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flwr_kld.ledger.entry import Remembered
from flwr_kld.reference import Reference

if TYPE_CHECKING:
    from flwr_kld.ledger import Ledger


def reference_state(reference: Reference, key: str, population: str = "default") -> Remembered:
    """Return what to settle together with a reference's report."""
    return Remembered(_name(key, population), reference.to_dict())


def stored_reference(ledger: Ledger, key: str, *, population: str = "default") -> Reference:
    """Read the reference that was made under a key."""
    state = ledger.state(_name(key, population))
    if state is None:
        raise ValueError(f"the ledger keeps no reference under key {key!r} of {population!r}")
    try:
        return Reference.from_dict(state.value)
    except ValueError as error:
        raise ValueError(f"the reference that the ledger keeps as {key!r} is damaged") from error


def _name(key: str, population: str) -> str:
    return f"{population}/reference/{key}"
