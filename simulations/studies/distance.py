"""The smallest divergence that one check finds with power .8 at 5 %, where none is tolerated.

Run ``python simulations/studies/distance.py [--runs 400] [--workers 2] [--out DIR]``. K = 1,000
symbols of a power law, ε = 1, a drift that is spread over all of them: what one check can tell is
far from what the best test could, and this says how far. Writes ``distance.csv``,
``distance.json`` and ``distance.png``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from flwr_kld._extras import require
from flwr_kld.inference.lower_bound import divergence_sum
from flwr_kld.simulations.studies.check_setting import Setting
from flwr_kld.simulations.studies.checks import Checks
from flwr_kld.simulations.studies.runner import Row, generator, in_processes, options, save, show

SYMBOLS, LEVEL, POWER = 1_000, 0.05, 0.8


@dataclass(frozen=True)
class Bar:
    """What is to be reached in one size of cohort, and what other tests reach there."""

    clients: int  # Of a check, and of a client
    records: int
    nats: tuple[float, ...]  # Divergences that are tried, ascending
    most: float  # Nats that are to be found with power `POWER`
    # Nats that ten groups found, that the noised χ² finds (valid for independent records only) and
    # the likelihood ratio if the alternative is known
    groups: float
    chi_square: float
    likelihood: float


BARS = (
    Bar(400, 50, (0.0, 0.0025, 0.0035, 0.0046, 0.006, 0.008), 0.0046, 0.0070, 0.0039, 0.00013),
    Bar(
        3_000, 100, (0.0, 0.00015, 0.00025, 0.00036, 0.0005, 0.0007), 0.00036, 0.00073, 0.00018,
        1e-5,
    ),
)  # fmt: skip


def power(item: tuple[Setting, int]) -> float:
    """Fraction of checks that find the drift."""
    setting, runs = item
    rng = generator(setting.name, int(1e6 * setting.nats))
    checks = Checks(setting.reference, setting.trust, 0.0, setting.records)
    found = 0
    for _ in range(runs):
        halves = checks.halves(setting.federation, setting.clients, rng)
        found += divergence_sum(halves.witness, halves.sums, LEVEL).p_value() < LEVEL
    return found / runs


def smallest(nats: Sequence[float], found: Sequence[float]) -> float:
    """Interpolate where the power reaches `POWER`; NaN if it does nowhere."""
    for i in range(1, len(nats)):
        if found[i] >= POWER:
            gain = max(found[i] - found[i - 1], 1e-9)
            part = min(max((POWER - found[i - 1]) / gain, 0.0), 1.0)
            return nats[i - 1] + part * (nats[i] - nats[i - 1])
    return math.nan


def plot(bars: Sequence[Bar], found: Sequence[Sequence[float]], path: Path) -> None:
    """Draw power over divergence."""
    figure = require("matplotlib.figure", extra="plots").Figure((10, 4), layout="constrained")
    for axes, bar, own in zip(figure.subplots(1, 2), bars, found, strict=True):
        axes.plot(bar.nats, own, marker="o", color="C0")
        axes.axhline(POWER, color="#444444", linewidth=1)
        for nats, label, color in (
            (bar.most, "wanted", "C3"),
            (bar.groups, "ten groups", "#9a9a9a"),
            (bar.chi_square, "χ², independent records", "C2"),
        ):
            axes.axvline(nats, label=label, color=color, linewidth=1, linestyle="--")
        axes.set(
            title=f"{bar.clients} clients of {bar.records} records", xlabel="D", ylabel="found"
        )
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main() -> None:
    """Run the study."""
    chosen = options(__doc__, runs=400, what="checks at each divergence", out="distance")
    console = Console()
    work = [
        (Setting(SYMBOLS, "spread", nats, bar.clients, bar.records), chosen.runs)
        for bar in BARS
        for nats in bar.nats
    ]
    flat = iter(in_processes(power, work, chosen.workers, "checking"))
    found = [[next(flat) for _ in bar.nats] for bar in BARS]
    rows: list[Row] = [
        {
            "cohort": f"{bar.clients} x {bar.records}",
            "at_5_percent": own[0],
            "smallest": (least := smallest(bar.nats, own)),
            "wanted": bar.most,
            "enough": least <= bar.most,
            "groups": bar.groups,
            "chi_square": bar.chi_square,
            "likelihood_ratio": bar.likelihood,
        }
        for bar, own in zip(BARS, found, strict=True)
    ]
    power_rows = [
        {"cohort": f"{bar.clients} x {bar.records}", "D": nats, "found": share}
        for bar, own in zip(BARS, found, strict=True)
        for nats, share in zip(bar.nats, own, strict=True)
    ]
    show(f"smallest D found with power {POWER:g} at {LEVEL:.0%}", rows, console)
    show("power", power_rows, console)
    save(rows, chosen.out, "distance", {"power": power_rows})
    plot(BARS, found, chosen.out / "distance.png")
    console.print(f"written to {chosen.out}")


if __name__ == "__main__":
    main()
