"""Changed records beside a reference that has not seen every value, where nothing moved."""

import numpy as np
import pytest

from flwr_kld import Labels, Reference, Table
from flwr_kld.simulations import simulate
from flwr_kld.strategies import KLDrift, Trusted

WORLDS = [(200, 1.5, 3_000, 20_000), (20, 1.2, 50, 3_000), (100, 1.2, 1_000, 10_000)]


@pytest.mark.parametrize(("symbols", "exponent", "rows", "records"), WORLDS)
def test_values_that_a_reference_has_not_seen_are_no_change(symbols, exponent, rows, records):
    """Both are of one law, with many rare values: the interval holds 0, and nothing has moved."""
    law = 1 / np.arange(1, symbols + 1) ** exponent
    law /= law.sum()
    names = np.array([f"job {number}" for number in range(symbols)])
    table, rng = Table({"job": Labels(list(names))}), np.random.default_rng(1)

    def drawn(number):
        return {"job": rng.choice(names, number, p=law).tolist()}

    for seed in range(3):
        reference = Reference.from_frame(table, drawn(rows))
        monitor = KLDrift(reference, Trusted(1.0, 1e-6), threshold=0.05)
        report = simulate(monitor, drawn(records), clients=3, seed=seed)
        column = report.columns["job"]
        assert column.verdict.outside.lower > 0  # what the reference has not seen
        assert column.changed.low == 0
        assert not column.has_moved
        assert "moved" not in report.summary
