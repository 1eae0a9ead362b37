"""The budget ledger: what checks may spend on a person, have spent, and remember.

    >>> ledger = Ledger("sqlite:///drift.db")
    >>> ledger.set_budget(Budget(epsilon=1.0, delta=1e-6, window_days=30))
    >>> cost = Cost.claimed("discrete-laplace", Guarantee(0.1))
    >>> reservation = ledger.reserve("2026-01-05", [Charge(cost, Clients(cohort))])
    >>> # ask the cohort, make the report
    >>> ledger.settle(reservation, report.to_dict())

How to run it: ``docs/ledger.md``. What it guarantees: ``docs/proofs/composition.md``.
"""

from flwr_kld.accounting.budget import Budget
from flwr_kld.accounting.cost import Cost
from flwr_kld.accounting.entry import Kind
from flwr_kld.accounting.errors import BudgetExhausted, LedgerError
from flwr_kld.accounting.ledger import Ledger
from flwr_kld.accounting.parts import Charge, Clients, Everyone, RecordBuckets

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
