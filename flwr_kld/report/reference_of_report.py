"""A reference of what a check released: this quarter against the last one, both private."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flwr_kld.inference.allowance import CLEAR
from flwr_kld.integral.references import ColumnCells, reference_of_cells
from flwr_kld.kernel.arguments import instance
from flwr_kld.query.plan import cells_by_symbol
from flwr_kld.reference import Reference
from flwr_kld.report.report import Report


def reference_of(report: Report, reference: Reference) -> Reference:
    """Make a reference of what a check against another one released, or say why that cannot be."""
    instance("reference", reference, Reference, "the Reference that the check compared with")
    if report.compared.reference != reference.fingerprint:
        raise ValueError(
            f"this check compared with the reference {report.compared.reference[:12]}, not with "
            f"{reference.fingerprint[:12]}: give that one"
        )
    cells = [_cells(report, name, own) for name, own in reference.columns.items()]
    return reference_of_cells(reference.domain, cells)


def _cells(report: Report, name: str, own: Reference) -> ColumnCells:
    counts = report.columns[name].counts if name in report.columns else None
    if counts is None:
        raise ValueError(
            f"the check did not count each symbol of {name!r} by itself: ask clients what they "
            "hold (Statistics), or check with more cells, KLDrift(…, cells=…)"
        )
    effect = counts.design_effect
    if effect is None:
        raise ValueError(
            "the check did not ask how alike a client's records are, so that nothing tells for "
            "how many they count: its trust model releases whole counts only"
        )
    cell_of, values = cells_by_symbol(own), np.array(counts.values)
    if len(values) != cell_of.max() + 1 or not counts.noise > 0 or not effect >= 1:
        raise ValueError(f"the report's counts of {name!r} are damaged: take the ledger's own")
    _require_told_apart(name, own, cell_of, values, counts.noise)
    records = report.columns[name].reading.records
    mechanism = report.protection.mechanism
    return ColumnCells(own, cell_of, values, mechanism, counts.noise, records, effect)


def _require_told_apart(
    name: str,
    own: Reference,
    cell_of: NDArray[np.int32],
    values: NDArray[np.int64],
    noise: float,
) -> None:
    """Refuse records whose symbols the check's reference lacks, and that share a cell."""
    together = (np.bincount(cell_of, minlength=len(values)) > 1) & (values > CLEAR * noise)
    if together.any():
        part = 100 * values[together].sum() / values.sum()
        raise ValueError(
            f"about {part:.2g} % of the records of {name!r} are of symbols that the check's "
            "reference lacks and that it counted together: ask clients what they hold "
            "(Statistics), which counts each by itself"
        )
