"""The budget ledger: what checks may spend on a person, have spent, and remember.

How to run it, with an example: ``docs/ledger.md``. Its guarantees:
``docs/proofs/composition.md``.
"""

from typing import TYPE_CHECKING, Any

from flwr_kld.accounting.budget import Budget
from flwr_kld.accounting.cost import Cost
from flwr_kld.accounting.entry import Kind
from flwr_kld.accounting.errors import BudgetExhausted, LedgerError
from flwr_kld.accounting.parts import Charge, Clients, Everyone, RecordBuckets

if TYPE_CHECKING:
    from flwr_kld.accounting.ledger import Ledger

__all__ = [
    "Budget",
    "BudgetExhausted",
    "Charge",
    "Clients",
    "Cost",
    "Everyone",
    "Kind",
    "Ledger",
    "LedgerError",
    "RecordBuckets",
]


def __getattr__(name: str) -> Any:
    """Load `Ledger` when it is asked for: clients do without a database's library."""
    if name != "Ledger":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flwr_kld.accounting.ledger import Ledger

    return Ledger
