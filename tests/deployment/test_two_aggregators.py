"""Two aggregators on a real SuperLink, beside three honest clients and a liar: six SuperNodes.

On two idle cores a deciding check shall take 20 s at most. That is printed and not asserted: on a
busy machine processes start slowly.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from flower_deployment import Deployment, deployed

from flwr_kld.secure_sums.split_sum import NOT_PROVED

pytestmark = pytest.mark.slow
CLIENTS, LIAR = ("ayr", "bern", "como", "davos"), "davos"
APP = Path(__file__).parent / "apps" / "split"


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Deployment]:
    """Nodes whose operators' files say who they are; `app` pins both aggregators."""
    with deployed(tmp_path) as running:
        running.add_two_aggregators(APP, CLIENTS, {LIAR: "liar=1"})
        yield running


def test_a_liar_is_counted_and_in_no_verdict(deployment: Deployment, tmp_path: Path, capsys):
    nodes = len(CLIENTS) + 2
    printed = deployment.run(tmp_path / "app", "--run-config", f"nodes={nodes}")
    found = [json.loads(line) for line in re.findall(r"CHECK (\{.*\})", printed)]
    assert len(found) == 2, printed[-3000:]
    with capsys.disabled():
        for check in found:
            cost = check["cost"]
            parts = (f"{cost[part]:.1f} {part}" for part in ("asking", "waiting", "computing"))
            print(f"\nsplit: {cost['seconds']:.1f} s ({', '.join(parts)})", end="")
    for check in found:
        assert check["protection"]["trust"] == "two-aggregators"
        assert (check["cohort"]["asked"], check["cohort"]["survivors"]) == (4, 3)
        assert check["cohort"]["dropouts"] == {f"rejected by the aggregators: {NOT_PROVED}": 1}
        assert check["verdict"]["lower_bound"] is not None, check["verdict"]["reason"]
        assert check["verdict"]["outcome"] != "drift"
