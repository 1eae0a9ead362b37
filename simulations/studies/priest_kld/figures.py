"""Plots laid out as the paper's Figures 1 to 5."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flwr_kld.common.extras import require
from flwr_kld.simulations.studies.priest_kld.settings import CLIENTS, DRAWS, Study
from flwr_kld.simulations.studies.priest_kld.summary import best, pick
from flwr_kld.simulations.studies.runner import Row, console

Series = tuple[str, str]
"""Rule and trust model."""

_LABELS: dict[Series, str] = {
    ("paper", "none"): "paper's rule, no privacy",
    ("paper", "trusted"): "paper's rule, Trusted",
    ("paper", "aggregator"): "paper's rule, TAgg",
    ("paper", "distributed"): "paper's rule, Dist",
    ("post-processed", "none"): "post-processed, no privacy",
    ("post-processed", "trusted"): "post-processed, Trusted",
    ("post-processed", "aggregator"): "post-processed, TAgg",
    ("post-processed", "distributed"): "post-processed, Dist",
    ("scalar", "none"): "Scalar, no privacy",
    ("scalar", "central"): "Scalar, Trusted and TAgg",
    ("default", "none"): "our defaults, no privacy",
    ("default", "central"): "our defaults, Trusted and TAgg",
    ("default", "distributed"): "our defaults, Dist",
}
_COLOURS = {
    "none": "#777777",
    "trusted": "#c23b22",
    "aggregator": "#e69f00",
    "central": "#8e44ad",
    "distributed": "#1f77b4",
}
_LINES = {"paper": ":", "post-processed": "-.", "scalar": "--", "default": "-"}
_MODELS: dict[str, tuple[Series, ...]] = {
    "Dist": (("paper", "distributed"), ("post-processed", "distributed"),
             ("default", "distributed")),
    "TAgg": (("paper", "aggregator"), ("post-processed", "aggregator"), ("scalar", "central"),
             ("default", "central")),
    "Trusted": (("paper", "trusted"), ("post-processed", "trusted"), ("scalar", "central"),
                ("default", "central")),
}  # fmt: skip
_PAIRS = {"mean of all pairs": "", "min pair": "_min", "max pair": "_max"}
_MSE = "MSE  [nats²]"


def draw(rows: list[Row], study: Study, out: Path) -> list[Path]:
    """Draw every figure that has points."""
    rows = pick(rows, delta=0.0, anew=False)
    asked = study.of_paper(CLIENTS)
    at = {"clients": asked, "draws": DRAWS}
    cohorts = sorted({s.clients for s in study.settings if s.draws == DRAWS})
    epsilons = _epsilons(rows, at)
    common = [e for e in (0.5, 2.0, 5.0)
              if all(e in _epsilons(rows, at | {"clients": c}) for c in cohorts)]  # fmt: skip
    figures: list[tuple[str, Any]] = [
        (
            "figure_1",
            _by_lambda(rows, [(f"ε = {e:g}", at | {"epsilon": e}) for e in (0.05, 0.5, 3.0)
                              if e in epsilons], f"|Cₜ| = {asked}"),
        ),
        (
            "figure_2",
            _by_lambda(rows, [(f"|Cₜ| = {c}", at | {"clients": c, "epsilon": 0.5})
                              for c in map(study.of_paper, (36, 270, 540))
                              if 0.5 in _epsilons(rows, at | {"clients": c})],
                       "ε = 0.5"),
        ),
        ("figure_3", _by_epsilon(rows, at, epsilons, "mse", _MSE)),
        ("figure_4", _by_epsilon(rows, at, epsilons, "noise", "noise  [% of the truth]")),
        ("figure_5", _by_cohort(rows, cohorts, common)),
    ]  # fmt: skip
    written = []
    for name, figure in figures:
        if figure is None:
            console.print(f"{name} is not drawn: its settings are left out, or not measured yet")
            continue
        written.append(out / f"{name}.png")
        figure.savefig(written[-1], dpi=120)
    return written


def _epsilons(rows: list[Row], at: Row) -> list[float]:
    """Values of ε for which every rule has been measured."""
    found = pick(rows, **at)
    by_rule = [{row["epsilon"] for row in pick(found, rule=rule) if row["epsilon"]}
               for rule in _LINES]  # fmt: skip
    return sorted(set[float].intersection(*by_rule))


def _by_lambda(rows: list[Row], panels: list[tuple[str, Row]], where: str) -> Any:
    if not panels:
        return None
    figure = _figure((4.2 * len(panels), 5.2))
    for letter, axes, (title, fixed) in zip(
        "abc", _grid(figure, 1, len(panels))[0], panels, strict=False
    ):
        for series in _LABELS:
            own = _of(rows, series, fixed)
            if series[0] == "default":
                own = [own[0], own[0] | {"lam": 2.0}]  # no λ: a level line
            own = [best(pick(own, lam=lam)) for lam in dict.fromkeys(row["lam"] for row in own)]
            _curve(axes, series, [row["lam"] for row in own], own)
        axes.set(yscale="log", xlabel="λ", title=f"({letter}) {title}")
    figure.suptitle(f"Effect of λ on the mean MSE, {where}")
    return _finished(figure, _MSE)


def _by_epsilon(rows: list[Row], at: Row, epsilons: Sequence[float], number: str, unit: str) -> Any:
    """Above, each model with its pairs; below, each pair with all models; λ chosen in hindsight."""
    if len(epsilons) < 2:
        return None
    figure = _figure((13, 8.6))
    grid = _grid(figure, 2, 3)
    for letter, axes, (model, many) in zip("abc", grid[0], _MODELS.items(), strict=True):
        for series in many:
            for marker, (pair, suffix) in zip(("", "v", "^"), _PAIRS.items(), strict=True):
                own = [best(_of(rows, series, at | {"epsilon": e})) for e in epsilons]
                _curve(axes, series, epsilons, own, number + suffix, marker, pair)
        axes.set_title(f"({letter}) {model}: line mean, ▼ min pair, ▲ max pair")
    for letter, axes, (pair, suffix) in zip("def", grid[1], _PAIRS.items(), strict=True):
        for series in _LABELS:
            if series[1] == "none" and number == "noise":
                continue
            own = [best(_of(rows, series, at | {"epsilon": e})) for e in epsilons]
            _curve(axes, series, epsilons, own, number + suffix)
        axes.set(title=f"({letter}) {pair}", xlabel="ε of one check  [nats]")
    for axes in grid.flat:
        axes.set(xscale="log", yscale="log")
        axes.set_xticks((0.05, 0.25, 1, 3, 6), ("0.05", "0.25", "1", "3", "6"))
        axes.minorticks_off()
    what = "MSE" if number == "mse" else "noise as a fraction of the truth"
    figure.suptitle(f"Effect of ε on the {what}, |Cₜ| = {at['clients']}, each rule at its best λ")
    return _finished(figure, unit)


def _by_cohort(rows: list[Row], cohorts: Sequence[int], epsilons: Sequence[float]) -> Any:
    if len(cohorts) < 2 or len(epsilons) < 2:
        return None
    figure = _figure((13, 8.6))
    grid = _grid(figure, 2, 3)

    def own(series: Series, epsilon: float) -> list[Row]:
        return [
            best(_of(rows, series, {"clients": c, "draws": DRAWS, "epsilon": epsilon}))
            for c in cohorts
        ]

    for letter, axes, epsilon in zip("abc", grid[0], epsilons, strict=False):
        for series in _LABELS:
            _curve(axes, series, cohorts, own(series, epsilon))
        axes.set_title(f"({letter}) ε = {epsilon:g}, mean of all pairs")
    for letter, axes, (model, many) in zip("def", grid[1], _MODELS.items(), strict=True):
        for series in many:
            for marker, (pair, suffix) in zip(("", "v", "^"), _PAIRS.items(), strict=True):
                _curve(axes, series, cohorts, own(series, epsilons[1]), "mse" + suffix, marker,
                       pair)  # fmt: skip
        axes.set(
            title=f"({letter}) {model}, ε = {epsilons[1]:g}: ▼ min pair, ▲ max pair",
            xlabel="clients asked |Cₜ|",
        )
    for axes in grid.flat:
        axes.set(yscale="log")
    figure.suptitle("Effect of |Cₜ| on the MSE, each rule at its best λ")
    return _finished(figure, _MSE)


def _of(rows: list[Row], series: Series, fixed: Row) -> list[Row]:
    """Rows of a series in a setting; without noise ε plays no part."""
    if series[1] == "none":
        fixed = fixed | {"epsilon": None}
    return pick(rows, rule=series[0], trust=series[1], **fixed)


def _curve(
    axes: Any,
    series: Series,
    x: Sequence[float],
    rows: list[Row],
    number: str = "mse",
    marker: str = "",
    pair: str = "",
) -> None:
    """Draw a series, with the band over repeats where it is the mean over pairs."""
    rule, trust = series
    style = {"color": _COLOURS[trust], "linestyle": _LINES[rule], "marker": marker}
    wide = 2.4 if rule == "default" else 1.6
    label = _LABELS[series] if pair in ("", "mean of all pairs") else None
    axes.plot(
        x, [row[number] for row in rows], label=label, markersize=4,
        linewidth=wide if label else 0.8, **style,
    )  # fmt: skip
    if number == "mse":
        band = ([row[name] for row in rows] for name in ("low", "high"))
        axes.fill_between(x, *band, color=_COLOURS[trust], alpha=0.13, linewidth=0)


def _figure(size: tuple[float, float]) -> Any:
    return require("matplotlib.figure", extra="plots").Figure(size, layout="constrained")


def _grid(figure: Any, rows: int, columns: int) -> Any:
    return figure.subplots(rows, columns, squeeze=False, sharey=True)


def _finished(figure: Any, unit: str) -> Any:
    """Name units, and every series once beneath the panels."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_subplotspec().is_first_col():
            axes.set_ylabel(unit)
        handles, labels = axes.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    ordered = [label for label in _LABELS.values() if label in found]
    figure.legend(
        [found[label] for label in ordered], ordered,
        loc="outside lower center", ncols=3, frameon=False,
    )  # fmt: skip
    return figure
