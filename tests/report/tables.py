"""Reports of a made-up table, through all that a check makes of its counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache

import numpy as np
from report.samples import REPORT, decided

from flwr_kld import Binned, Labels, Reference
from flwr_kld.ask.noisy import NoisyCounts
from flwr_kld.ask.partition import Partition
from flwr_kld.infer.estimators.design_effect import INDEPENDENT
from flwr_kld.infer.estimators.posterior_ratios import posterior_ratios
from flwr_kld.infer.verdict import Outcome, Verdict
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.report.parts import column_report, read
from flwr_kld.report.report import Report
from flwr_kld.trust.calibration import calibrated_laplace

N = 4000
JOBS = Reference.from_counts(Labels(["a", "b", "<c>"]), [500, 300, 200])
AGES = Reference.from_counts(Binned([20, 40, 60]), [100, 300, 400, 200, 50])
NAMES = ("job", "age <years>", "wage", "tenure")


@cache
def published(drift: float, number: int, *, labels: bool) -> NoisyCounts:
    """Counts of a column whose first symbols have grown by a part of all records."""
    reference = JOBS if labels else AGES
    rng = np.random.default_rng(number)
    law = reference.probabilities * (1 - drift)
    law[0] += drift
    plan = Partition().draw(reference, rng)
    values = np.bincount(plan.cell_of, rng.multinomial(N, law / law.sum()), plan.cells)
    event = calibrated_laplace(Guarantee(0.5))
    noise = rng.choice(event.table.support, plan.cells, p=event.table.probabilities)
    return NoisyCounts(values.astype(np.int64) + noise, float(N), event, plan, private=True)


def decision(drift: float) -> Verdict:
    """Drift from a tenth of the records on."""
    outcome = Outcome.DRIFT if drift >= 0.1 else Outcome.NO_DRIFT
    verdict = decided(outcome, 2 * drift**2).verdict
    return replace(verdict, threshold=0.05)


def table_report(drifts: Mapping[str, float], *, number: int = 1, threshold: bool = True) -> Report:
    """A check of a table whose columns have drifted like this; the first has labels."""
    verdicts = {name: decision(drift) for name, drift in drifts.items()}
    columns = {}
    for place, name in enumerate(drifts):
        counts = published(drifts[name], 100 * number + place, labels=name == NAMES[0])
        found = read(counts, posterior_ratios(counts))
        reading = replace(found, drawn_from="all")
        verdict = verdicts[name] if threshold else None
        columns[name] = column_report(
            counts, reading, verdict,
            columns=len(drifts), effects=INDEPENDENT, draws="client",
        )  # fmt: skip
    return replace(
        REPORT,
        started=(datetime.fromisoformat(REPORT.started) + timedelta(days=number)).isoformat(),
        columns=columns,
    )


def drifted(number: int = 1, **others: float) -> Report:
    """One column of four has drifted, the one with markup in its name."""
    still = dict.fromkeys(NAMES, 0.0)
    return table_report(still | {NAMES[1]: 0.3} | others, number=number)
