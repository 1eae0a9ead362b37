"""What the exit code of ``flwr-kld check`` says."""

from __future__ import annotations

from enum import IntEnum

from flwr_kld.report import Outcome
from flwr_kld.report.report import Report


class ExitCode(IntEnum):
    """How a check ended."""

    NO_DRIFT = 0
    DRIFT = 1
    INCONCLUSIVE = 2
    REFUSED = 3
    ERROR = 4

    @property
    def words(self) -> str:
        """Name in output and metrics."""
        return self.name.lower().replace("_", " ")


_OF_OUTCOME = {
    Outcome.NO_DRIFT: ExitCode.NO_DRIFT,
    Outcome.DRIFT: ExitCode.DRIFT,
    Outcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
}


def exit_code_of(report: Report) -> ExitCode:
    """Return the exit code of a finished check; without a threshold it is inconclusive."""
    return ExitCode.INCONCLUSIVE if report.outcome is None else _OF_OUTCOME[report.outcome]
