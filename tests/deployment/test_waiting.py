"""How long a deciding check takes on a real SuperLink, and what for: four SuperNodes on loopback.

On two idle cores a check by a trusted server shall take 15 s at most, one over a secure sum 45 s.
These are printed and not asserted: on a busy machine processes start slowly.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_deployment import Deployment

from flwr_kld import Labels, Reference
from flwr_kld.accounting import Budget, Ledger

pytestmark = pytest.mark.slow
NODES = 4
USUAL = {"bus": 3100, "car": 2500, "train": 1200, "walk": 3200}
APP = Path(__file__).parent / "apps" / "monitored"
STEPS = ("check:one", "check:two", "shares:three", "shares:four")


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    running = Deployment(tmp_path)
    try:
        running.start()
        for i in range(NODES):
            running.add_node(f"node{i}", "lies=false")
        yield running
    finally:
        running.stop()


def test_the_seconds_of_a_deciding_check(deployment: Deployment, tmp_path: Path, capsys):
    reference = tmp_path / "reference.npz"
    Reference.from_counts(Labels(sorted(USUAL)), list(USUAL.values())).save(reference)
    ledger = f"sqlite:///{tmp_path / 'drift.db'}"
    Ledger(ledger).set_budget(Budget(100.0, 1e-3, window_days=30))
    printed = deployment.run(
        APP, "--run-config",
        f'nodes={NODES} ledger="{ledger}" reference="{reference}" steps="{" ".join(STEPS)}"',
    )  # fmt: skip
    found = [json.loads(line) for line in re.findall(r"STEP (\{.*\})", printed)]
    assert [step["step"] for step in found] == list(STEPS), printed[-3000:]
    with capsys.disabled():
        for step in found:
            cost = step["cost"]
            parts = (f"{cost[part]:.1f} {part}" for part in ("asking", "waiting", "computing"))
            print(f"\n{step['step']}: {cost['seconds']:.1f} s ({', '.join(parts)})", end="")
    for step in found:
        assert (step["cohort"]["asked"], step["cohort"]["survivors"]) == (NODES, NODES)
        assert step["verdict"]["outcome"] != "drift"
        assert step["cost"]["asking"] + step["cost"]["computing"] < step["cost"]["waiting"]
