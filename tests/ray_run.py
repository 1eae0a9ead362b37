"""One run of the simulated app on Ray, through ``flwr run`` at a SuperLink of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patience import HANGS

from flwr_kld.simulations.local_superlink import local_superlink
from flwr_kld.simulations.simulated_monitor import CHECKS_FILE


def run_on_ray(
    app: Path, out: Path, *, nodes: int, config: Mapping[str, object]
) -> list[dict[str, Any]]:
    """Run an app to its end; return what it wrote down, a line a round.

    ``flwr run`` ends with 0 also where the ServerApp fails, so the log tells more.
    """
    with local_superlink(out / "flower.log") as superlink:
        run = superlink.run(app, nodes=nodes, config={**config, "out": out})
        code = run.wait(timeout=HANGS)
        log = superlink.log.read_text()[-10_000:]
    assert code == 0, log
    written = out / CHECKS_FILE
    lines = written.read_text().splitlines() if written.exists() else []
    assert len(lines) == config["checks"], log
    return [json.loads(line) for line in lines]
