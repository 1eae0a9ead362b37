"""Clients' private rows, from counts or symbols that a test knows."""

import numpy as np

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import ClearSum, ClientRows


def rows_of(layout, *counts) -> ClientRows:
    """Each client's numbers as they are given."""
    return ClientRows(np.array(counts, dtype=np.int32).reshape(len(counts), -1), layout)


def counted(plan, *symbols) -> ClientRows:
    """Count each client's symbols."""
    return ClientRows.count(symbols, plan.cell_of, plan.layout, Guarantee(1.0), SystemBits())


def clear_of(layout, *counts) -> ClearSum:
    """The sum of clients' counts."""
    return ClearSum(layout, rows_of(layout, *counts))
