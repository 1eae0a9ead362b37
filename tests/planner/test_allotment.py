"""How finely each column of a table is released."""

import numpy as np

from flwr_kld import Partition, Reference, Table
from flwr_kld.planner.allotment import allot
from flwr_kld.strategies import Trusted


def test_a_delta_gives_a_wide_table_less_noise_and_each_column_its_own():
    kinds = {f"c{i}": [str(k) for k in range(3)] for i in range(9)}
    kinds["wide"] = [str(k) for k in range(90)]
    counts = {name: [9000 // len(own)] * len(own) for name, own in kinds.items()}
    reference = Reference.from_counts(Table(kinds), counts)
    plan = Partition(1000).draw(reference, np.random.default_rng(0))

    def noise(trust: Trusted) -> dict[str, float]:
        found = allot(trust, plan, dict.fromkeys(plan.columns, 0.15), theta=0.01)
        deviation = trust.over(found).event(1).noise.variance ** 0.5
        return {name: deviation / n for name, n in zip(plan.columns, found.counts, strict=True)}

    pure, loose = noise(Trusted(1.0)), noise(Trusted(1.0, 1e-6))
    assert len(set(pure.values())) == 1
    assert max(loose.values()) < 0.9 * pure["wide"]
    assert loose["wide"] < 0.9 * max(loose.values())
