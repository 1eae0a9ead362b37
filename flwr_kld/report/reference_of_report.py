"""A reference of what a check released: this quarter against the last one, both private."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from flwr_kld.calibration.laws import discrete_gaussian, discrete_laplace
from flwr_kld.inference.allowance import CLEAR
from flwr_kld.integral.references import fractions_of_cells
from flwr_kld.kernel.arguments import instance
from flwr_kld.kernel.law import NoiseTable
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
    fractions, records, noises = [], [], []
    for name, own in reference.columns.items():
        counts = report.columns[name].counts if name in report.columns else None
        if counts is None:
            raise ValueError(
                f"the check did not count each symbol of {name!r} by itself: ask clients for a "
                "reference (ReferenceFromClients), or check with more cells, Partition(cells)"
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
        noise = _noise(report.protection.mechanism, counts.noise)
        fractions.append(fractions_of_cells(own, cell_of, values, noise))
        records.append(report.columns[name].reading.records / effect)
        noises.append(counts.noise / effect)
    return Reference(reference.domain, np.concatenate(fractions), min(records), max(noises))


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
            "reference lacks and that it counted together: ask clients for a reference "
            "(ReferenceFromClients), which counts each by itself"
        )


def _noise(mechanism: str, deviation: float) -> NoiseTable:
    """Return the law of noise of a known deviation; of sums of shares, a Gaussian one."""
    variance = deviation**2
    if mechanism == "discrete-laplace":  # of variance 2 q / (1 - q)²
        q = (1 + variance - math.sqrt(1 + 2 * variance)) / variance
        return discrete_laplace(-1 / math.log(q))
    return discrete_gaussian(deviation)
