"""The budget ledger: what checks may spend on a person, have spent, and remember.

How to run it, with an example: ``docs/ledger.md``. Its guarantees:
``docs/proofs/composition.md``.
"""

from typing import TYPE_CHECKING

from flwr_kld._extras import on_request

if TYPE_CHECKING:
    from flwr_kld.accounting.budget import Budget
    from flwr_kld.accounting.charge import Charge
    from flwr_kld.accounting.cost import Cost
    from flwr_kld.accounting.entry import Kind
    from flwr_kld.accounting.ledger import Ledger
    from flwr_kld.errors import BudgetExhausted, LedgerError

__all__ = [
    "Budget",
    "BudgetExhausted",
    "Charge",
    "Cost",
    "Kind",
    "Ledger",
    "LedgerError",
]

__getattr__, __dir__ = on_request(__name__)
