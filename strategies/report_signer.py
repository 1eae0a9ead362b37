"""Signs the reports of a server that has a key: ``FLWR_KLD_SIGNING_KEY`` names its file.

Strategies ask one of two objects: `ReportSigner`, or `NoSigner` where nothing is signed.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from flwr_kld.common.identity import Identity
from flwr_kld.guard import node_identity
from flwr_kld.report.audit import evidence_of, serves, signed
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.conclusions import Conclusions
from flwr_kld.report.evidence import Evidence
from flwr_kld.report.report import Report
from flwr_kld.trust import Trust

SIGNING_KEY = "FLWR_KLD_SIGNING_KEY"
"""Variable that names the server's Ed25519 key, as ``flwr-kld keys make`` writes it."""
_SEEDS = 1 << 53


class NoSigner:
    """Leaves reports as they are."""

    def generator(self, usual: np.random.Generator) -> np.random.Generator:
        """Return what draws the cells of the check."""
        return usual

    def evidence(
        self, measured: CohortRelease, conclusions: Conclusions, cells: int
    ) -> Evidence | None:
        """Return what the report will follow from, before it is concluded."""
        return None

    def signed(self, report: Report, evidence: Evidence | None) -> Report:
        """Return the report as it is kept."""
        return report


class ReportSigner(NoSigner):
    """Adds evidence and a signature to the report of one check."""

    def __init__(self, identity: Identity, trust: Trust) -> None:
        self._identity, self._trust, self._seed = identity, trust, 0

    def generator(self, usual: np.random.Generator) -> np.random.Generator:
        """Return a generator whose seed the evidence can name, and which draws nothing else."""
        self._seed = int(usual.integers(_SEEDS))
        return np.random.default_rng(self._seed)

    def evidence(
        self, measured: CohortRelease, conclusions: Conclusions, cells: int
    ) -> Evidence | None:
        """Return what the report will follow from, before it is concluded."""
        return evidence_of(measured, conclusions, cells, self._seed, self._trust)

    def signed(self, report: Report, evidence: Evidence | None) -> Report:
        """Return the report as it is kept."""
        return report if evidence is None else signed(report, evidence, self._identity)


def signer_of(trust: Trust) -> NoSigner:
    """Return what signs reports here.

    Raises `ValueError` if there is a key that cannot be used, or reports that nobody could verify.
    """
    place = os.environ.get(SIGNING_KEY, "")
    if not place:
        return NoSigner()
    if not Path(place).is_absolute():
        raise ValueError(f"{SIGNING_KEY} takes the absolute path of the server's key, not {place}")
    if not serves(trust):
        raise ValueError(
            f"reports of {type(trust).__name__}(…) cannot be verified, as flwr-kld does not know "
            f"its noise: unset {SIGNING_KEY}"
        )
    return ReportSigner(node_identity(Path(place)), trust)
