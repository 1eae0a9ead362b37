"""The budget ledger: what checks may spend on a person, have spent, and remember.

How to run it, with an example: ``docs/ledger.md``. Its guarantees:
``docs/proofs/composition.md``.
"""

from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.common.errors import BudgetExhausted, LedgerError
    from flwr_kld.ledger.budget import Budget
    from flwr_kld.ledger.charge import Charge
    from flwr_kld.ledger.cost import Cost
    from flwr_kld.ledger.entry import Kind
    from flwr_kld.ledger.ledger import Ledger

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
