"""A check by an installed wheel: run by `make release` in an environment without extras or tree."""

import importlib.util
from importlib.metadata import version
from pathlib import Path

from flwr.clientapp import ClientApp

import flwr_kld
from flwr_kld import Labels, Reference
from flwr_kld.clients import answer_drift_queries
from flwr_kld.simulations.in_process_grid import InProcessGrid
from flwr_kld.strategies import KLDrift, Trusted

if "site-packages" not in Path(flwr_kld.__file__).parts:
    raise SystemExit(f"this is not an installed wheel: {flwr_kld.__file__}")
if extras := [name for name in ("ray", "matplotlib", "sklearn") if importlib.util.find_spec(name)]:
    raise SystemExit(f"this environment has extras: {', '.join(extras)}")
animals = Labels(["cat", "dog"])
app = ClientApp()
answer_drift_queries(app, lambda context: ["cat"] * 100, animals)
reference = Reference.from_counts(animals, [10_000, 10_000])
monitor = KLDrift(reference, Trusted(epsilon=1.0), threshold=0.1)
report = monitor.check(InProcessGrid(app, nodes=10))
print(f"flwr-kld {version('flwr-kld')}: {report.outcome}")
if report.outcome != "drift":
    raise SystemExit(f"a drift of ln 2 nats in all records was not found: {report}")
