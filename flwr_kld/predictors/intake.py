"""Server-side checks of a round's reports: what cannot be, was not asked, or came before, is out.

A report that passes may still be a lie, and no check can tell: it is worth at most what any honest
report is, a move of ``epsilon`` in the log-odds between two hypotheses (two for a report replaced).
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from flwr_kld.kernel.arguments import whole
from flwr_kld.kernel.count import InvalidReply
from flwr_kld.predictors.bayes_mixture import BayesMixture
from flwr_kld.predictors.local_report import LocalReport, LocalReports, batches


class Rejection(StrEnum):
    """Why a report was not taken."""

    IMPOSSIBLE = "impossible report"
    WRONG_QUERY = "wrong query"
    REPEATED = "repeated report"


class Intake:
    """Collects the reports of one round."""

    def __init__(self, predictor: BayesMixture, round: int) -> None:
        self._predictor = predictor
        self._round = whole("round", round)
        self._taken: dict[str, LocalReport] = {}
        self.rejected: Counter[Rejection] = Counter()

    def take(self, client: str, report: LocalReport, context: str = "") -> Rejection | None:
        """Take a client's report, or say why not."""
        reason = self._objection(client, report, context)
        if reason:
            self.rejected[reason] += 1
        else:
            self._taken[client] = report
        return reason

    def _objection(self, client: str, report: LocalReport, context: str) -> Rejection | None:
        if client in self._taken:
            return Rejection.REPEATED
        asked = self._predictor.query_of(self._round, client, context)
        if (report.context, report.query) != (context, asked):
            return Rejection.WRONG_QUERY
        try:
            self._predictor.check(report)
        except InvalidReply:
            return Rejection.IMPOSSIBLE
        return None

    def __len__(self) -> int:
        return len(self._taken)

    def batches(self) -> list[LocalReports]:
        """Return what was taken, by context; order and senders are forgotten."""
        return batches(self._round, self._taken.values())
