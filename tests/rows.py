"""Clients' private rows, from counts or symbols that a test knows."""

import numpy as np

from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.law import SystemBits
from flwr_kld.kernel.vector import ClearSum, ClientRows, Held


def rows_of(layout, *counts) -> ClientRows:
    """Each client's numbers as they are given."""
    return ClientRows(np.array(counts, dtype=np.int32).reshape(len(counts), -1), layout)


def counted(plan, *symbols) -> ClientRows:
    """Count each client's symbols."""
    return ClientRows.count(symbols, plan.cell_of, plan.layout, Guarantee(1.0), SystemBits())


def values_of(private):
    """What a private type holds, which shows it to nobody."""
    return private._values


def clear_of(layout, *counts) -> ClearSum:
    """The sum of clients' counts."""
    return ClearSum(layout, rows_of(layout, *counts))


def answered(layout, *counts, guarantee=None, **options) -> ClearSum:
    """The sum of what clients answer, by their place, held against a guarantee's limit."""
    wire = Held([np.array(row, dtype="<i4").tobytes() for row in counts])
    promised = guarantee or Guarantee(1.0)
    return ClearSum.of_answers([(range(len(counts)), wire)], layout, promised, **options)
