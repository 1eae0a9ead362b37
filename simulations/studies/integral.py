"""Integral privacy for sampling: the paper's Algorithm 1, ours, and the exact optimum.

Run ``python simulations/studies/integral.py [--out DIR] [--quick]``. Domains,
budgets and metrics are the paper's (Section 5) plus real 4x4 patterns. Methods:

- ``MBDE``: Algorithm 1 as printed, T = 3, with our weak learner in place of the paper's network;
- ``ours``: free boosting, cooled on held-out records, projected into the symmetric box, and into
  boxes for data on a fraction s of the base;
- ``optimum``: the projection of the truth itself, which nobody can exceed in that box;
- ``DPB``: the paper's contender, on the line, at ε for one record and at ε for everybody.

The paper's other contender, a private GAN at δ = .1, is not run: the paper itself finds it below
DPB, and leaves it out of its curves. Writes ``integral.csv`` (every setting), and the paper's
figures 3, 4 and 7: ``integral_ring.png``, ``integral_curves.png`` and ``integral_scattered.png``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

from flwr_kld.common.extras import require
from flwr_kld.integral import Mollifier, project
from flwr_kld.integral.boosting import tilted
from flwr_kld.integral.fit import boost_freely, cooled, mbde_boosted
from flwr_kld.kernel.law import SeededBits
from flwr_kld.simulations.studies.integral_domains import (
    Floats,
    StudyDomain,
    mixture,
    patterns,
    random_gaussians,
    ring,
    scattered,
)
from flwr_kld.simulations.studies.papers.bernstein import bernstein
from flwr_kld.simulations.studies.runner import (
    Row,
    console,
    generator,
    plain_parser,
    save,
    show,
)

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0)
SHARES = (None, 0.1, 0.02)
ROUNDS_PRINTED = 3
REPEATS = 4
_LINES = {"": "-", " s=0.1": "--", " s=0.02": ":", " a record": "--", " everybody": "-"}
_SHOWN = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Of the epsilons, those in the printed tables."""
_COLOURS = {"Q0": "0.6", "MBDE": "C0", "ours": "C1", "optimum": "C2", "DPB": "C3"}
_PICTURED = ("ring", "scattered")


def box_of(epsilon: float, share: float | None) -> Mollifier:
    """Symmetric, or for data on a fraction of the base."""
    if share is None:
        return Mollifier.symmetric(epsilon)
    return Mollifier.asymmetric(epsilon, share)


def named(method: str, share: float | None) -> str:
    """Name of a method in a box."""
    return method if share is None else f"{method}, s={share:g}"


def densities(
    domain: StudyDomain, epsilons: tuple[float, ...]
) -> Iterator[tuple[str, float, Floats, float]]:
    """Yield (method, epsilon, density, seconds); epsilon 0 is the base."""
    base = domain.base
    yield "Q0", 0.0, base.mass, 0.0
    began = time.perf_counter()
    log_ratio, held = boost_freely(domain.records, base, bits=SeededBits(1))
    boosting = time.perf_counter() - began
    rng, histogram = generator("DPB", base.size), base.histogram(domain.records).astype(np.float64)
    for epsilon in epsilons:
        for whom in ("a record", "everybody") if domain.on_the_line else ():
            began = time.perf_counter()
            density = bernstein(histogram, epsilon, domain.kl, rng, everybody=whom == "everybody")
            yield f"DPB, {whom}", epsilon, density, time.perf_counter() - began
        began = time.perf_counter()
        fitted = mbde_boosted(domain.records, base, epsilon, rounds=ROUNDS_PRINTED)
        yield "MBDE", epsilon, tilted(base.mass, fitted), time.perf_counter() - began
        for share in SHARES:
            box = box_of(epsilon, share)
            began = time.perf_counter()
            density = cooled(log_ratio, base, box, held)
            taken = boosting + time.perf_counter() - began
            yield named("ours", share), epsilon, density, taken
            began = time.perf_counter()
            density = project(domain.truth, base, box)
            yield named("optimum", share), epsilon, density, time.perf_counter() - began


def find(rows: list[Row], domain: str, method: str, epsilon: float) -> list[Row]:
    """Rows of one setting; the base's do not depend on epsilon."""
    wanted = domain, method, 0.0 if method == "Q0" else epsilon
    return [r for r in rows if (r["domain"], r["method"], r["epsilon"]) == wanted]


def report(rows: list[Row], epsilons: tuple[float, ...]) -> None:
    """Print the KL drop by domain, method and epsilon, and how near ours comes to the optimum."""
    shown = [e for e in epsilons if e in _SHOWN]
    for domain in dict.fromkeys(r["domain"].split()[0] for r in rows):
        here = [r for r in rows if r["domain"].startswith(domain)]
        start = np.mean([r["kl"] for r in here if r["method"] == "Q0"])
        table = []
        for method in dict.fromkeys(r["method"] for r in here if r["epsilon"]):
            mine = [r for r in here if r["method"] == method]
            drops = {
                f"ε {e:g}": float(np.mean([r["drop"] for r in mine if r["epsilon"] == e]))
                for e in shown
            }
            seconds = float(np.median([r["seconds"] for r in mine]))
            table.append({"method": method, **drops, "seconds": seconds})
        show(f"{domain}: drop of KL(P ‖ Q) from {start:.3f}, nats", table)
    nearest = []
    for r in rows:
        if r["method"] == "ours":
            optima = find(rows, r["domain"], "optimum", r["epsilon"])
            (best,) = (o for o in optima if o["repeat"] == r["repeat"])
            nearest.append((r["drop"] / best["drop"], r["domain"], r["epsilon"]))
    share, domain, epsilon = min(nearest)
    console.print(
        f"ours, symmetric: at least {share:.1%} of the optimum's drop in all {len(nearest)} "
        f"settings (least on {domain} at ε = {epsilon:g})"
    )


def colour_of(method: str) -> str:
    """One colour a method, whatever its box."""
    return _COLOURS[method.partition(",")[0]]


def plot_curves(rows: list[Row], epsilons: tuple[float, ...], out: Path) -> None:
    """Draw the paper's Figure 4: NLL and mode coverage against epsilon."""
    domains = [d for d in ("ring", "mixture", "patterns") if any(r["domain"] == d for r in rows)]
    figure = _figure((4 * len(domains), 6))
    panels = figure.subplots(2, len(domains), sharex=True, squeeze=False)
    methods = list(dict.fromkeys(r["method"] for r in rows))
    for column, domain in enumerate(domains):
        for axes, metric in zip(panels[:, column], ("nll", "mode_coverage"), strict=True):
            for method in methods:
                points = [find(rows, domain, method, e) for e in epsilons]
                if not all(points):
                    continue
                axes.plot(
                    epsilons, [p[0][metric] for p in points], color=colour_of(method),
                    marker="" if method == "Q0" else ".", label=method,
                    linestyle=_LINES[method.partition(",")[2]],
                )  # fmt: skip
            axes.set(xscale="log", title=f"{domain}: {metric.replace('_', ' ')}")
            _tidy(axes)
        panels[1, column].set_xlabel("ε of one draw  [nats]")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    figure.savefig(out / "integral_curves.png", dpi=130)


def plot_densities(
    pictures: dict[tuple[str, float], Floats], domain: StudyDomain, out: Path
) -> None:
    """Draw the paper's Figure 3 or 7: densities, one row a method, one column an epsilon."""
    methods = [m for m in dict.fromkeys(m for m, _ in pictures) if m != "Q0" and "," not in m]
    epsilons = sorted({e for _, e in pictures if e}, reverse=True)
    side = round(domain.base.size**0.5)
    middles = domain.base.features[:: side + 1, 0]
    figure = _figure((1.5 * len(epsilons), 1.6 * len(methods)))
    panels = figure.subplots(len(methods), len(epsilons), sharex=True, sharey=True, squeeze=False)
    for row, method in enumerate(methods):
        for column, epsilon in enumerate(epsilons):
            axes = panels[row, column]
            relative = pictures[method, epsilon] / domain.base.mass
            density = (relative * domain.base_density).reshape(side, side)
            axes.contourf(middles, middles, density.T, levels=24, cmap="viridis")
            axes.set(xlim=(-2.3, 2.3), ylim=(-2.3, 2.3), aspect="equal", xticks=[], yticks=[])
            if row == 0:
                axes.set_title(f"ε = {epsilon:g}", fontsize=9)
        panels[row, 0].set_ylabel(method, fontsize=9)
    figure.savefig(out / f"integral_{domain.name}.png", dpi=130)


def _figure(size: tuple[float, float]) -> Any:
    return require("matplotlib.figure", extra="plots").Figure(size, layout="constrained")


def _tidy(axes: Any) -> None:
    axes.grid(axis="y", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Run the study."""
    parser = plain_parser(__doc__, out="integral")
    parser.add_argument("--quick", action="store_true", help="two epsilons, few random domains")
    arguments = parser.parse_args()
    epsilons = (1.0, 5.0) if arguments.quick else EPSILONS
    numbers, repeats = ((1, 5), 2) if arguments.quick else (range(1, 11), REPEATS)
    random_domains = [
        (lambda seed, n=n: random_gaussians(n, seed), repeat)
        for n in numbers
        for repeat in range(repeats)
    ]
    rows: list[Row] = []
    pictures: dict[str, dict[tuple[str, float], Floats]] = {name: {} for name in _PICTURED}
    pictured: dict[str, StudyDomain] = {}
    jobs = [(ring, 0), (scattered, 0), (mixture, 0), (patterns, 0), *random_domains]
    for make, repeat in track(jobs, description="domains"):
        domain = make(repeat)
        start = domain.kl(domain.base.mass)
        for method, epsilon, density, seconds in densities(domain, epsilons):
            kl = domain.kl(density)
            rows.append({
                "domain": domain.name, "repeat": repeat, "method": method, "epsilon": epsilon,
                "kl": kl, "drop": start - kl, "nll": domain.nll(density),
                "mode_coverage": domain.mode_coverage(density), "seconds": seconds,
            })  # fmt: skip
            if domain.name in _PICTURED:
                pictures[domain.name][method, epsilon] = density
                pictured[domain.name] = domain
    report(rows, epsilons)
    save(rows, arguments.out, "integral")
    plot_curves(rows, epsilons, arguments.out)
    for name, domain in pictured.items():
        plot_densities(pictures[name], domain, arguments.out)


if __name__ == "__main__":
    main()
