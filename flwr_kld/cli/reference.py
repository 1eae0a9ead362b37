"""``flwr-kld reference``: build the public Π, choose how, and look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from flwr_kld._extras import require
from flwr_kld.cli.options import AsJson
from flwr_kld.cli.output import print_json, results
from flwr_kld.cli.reference_build import build
from flwr_kld.cli.reference_recommend import recommend
from flwr_kld.reference import Reference

_PANELS = 3
"""Columns side by side in a picture."""
_NAMED = 40
"""Symbols that a picture names."""

reference = typer.Typer(help="Build and show the public reference distribution.")
reference.command()(build)
reference.command()(recommend)


@reference.command()
def show(
    file: Annotated[Path, typer.Argument(help="Reference that was saved, .npz or .json.")],
    *,
    top: Annotated[int, typer.Option(min=0, help="Number of heaviest symbols to show.")] = 10,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the columns to this file, .png or .svg.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a reference's fingerprints, size, columns and heaviest symbols."""
    reference = Reference.load(file)
    found = _describe(reference, top)
    if picture is not None:
        _draw(reference, picture)
    if as_json:
        print_json(found)
        return
    for name in ("reference", "domain", "kind", "symbols", "possible"):
        results.print(f"{name + ':':11}{found[name]}", markup=False)
    results.print(f"{'entropy:':11}{found['entropy']:.4g} nats")
    if columns := found.get("columns"):
        table = Table("column", "kind", "symbols", "not listed", box=SIMPLE, title="columns")
        for column in columns:
            name, unlisted = escape(column["name"]), f"{column['unlisted']:.2%}"
            table.add_row(name, column["kind"], str(column["symbols"]), unlisted)
        results.print(table)
    table = Table("symbol", "name", "probability", box=SIMPLE, title="heaviest symbols")
    for symbol in found["heaviest"]:
        table.add_row(str(symbol["symbol"]), escape(symbol["name"]), f"{symbol['probability']:.3%}")
    results.print(table)


def _describe(found: Reference, top: int) -> dict[str, Any]:
    p, domain = found.probabilities, found.domain
    positive = p[p > 0]
    heaviest = [s for s in np.argsort(-p, kind="stable")[:top].tolist() if p[s] > 0]
    columns = [
        {
            "name": name,
            "kind": own.domain.kind,
            "symbols": own.domain.size,
            "unlisted": sum(own.unlisted.values()),
        }
        for name, own in found.columns.items()
    ]
    return {
        "reference": found.fingerprint,
        "domain": domain.fingerprint,
        "kind": domain.kind,
        "symbols": domain.size,
        "possible": len(positive),
        **({"columns": columns} if columns else {}),
        "entropy": float(-(positive * np.log(positive)).sum()),
        "heaviest": [
            {"symbol": s, "name": domain.name_of(s), "probability": float(p[s])} for s in heaviest
        ],
    }


def _draw(reference: Reference, file: Path) -> None:
    """Draw the probabilities of each column as bars."""
    figures = require("matplotlib.figure", extra="plots")
    columns = reference.columns or {reference.domain.kind: reference}
    wide = min(len(columns), _PANELS)
    high = -(-len(columns) // wide)
    figure = figures.Figure(figsize=(4.5 * wide, 3.2 * high), layout="constrained")
    panels = figure.subplots(high, wide, squeeze=False).ravel()
    for panel in panels[len(columns) :]:
        panel.set_axis_off()
    for panel, (name, own) in zip(panels, columns.items(), strict=False):
        places = np.arange(own.domain.size)
        unlisted = own.domain.unlisted_way() >= 0
        panel.bar(places, own.probabilities, color=np.where(unlisted, "0.6", "C0"))
        panel.set_title(name.replace("$", r"\$"))
        if len(places) <= _NAMED:
            names = [own.domain.name_of(place).replace("$", r"\$") for place in places]
            panel.set_xticks(places, names, rotation=90, fontsize=7)
        else:
            panel.set_xlabel("symbol")
    figure.savefig(file)
