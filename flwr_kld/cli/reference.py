"""``flwr-kld reference``: build the public Π, choose how, and look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from flwr_kld.cli.options import AsJson
from flwr_kld.cli.output import print_json, results
from flwr_kld.cli.reference_build import build
from flwr_kld.cli.reference_recommend import recommend
from flwr_kld.reference import Reference

reference = typer.Typer(help="Build and show the public reference distribution.")
reference.command()(build)
reference.command()(recommend)


@reference.command()
def show(
    file: Annotated[Path, typer.Argument(help="Reference, .npz.")],
    *,
    top: Annotated[int, typer.Option(min=0, help="Number of heaviest symbols to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show a reference's fingerprints, size and heaviest symbols."""
    found = _describe(Reference.load(file), top)
    if as_json:
        print_json(found)
        return
    for name in ("reference", "domain", "kind", "symbols", "possible"):
        results.print(f"{name + ':':11}{found[name]}", markup=False)
    results.print(f"{'entropy:':11}{found['entropy']:.4g} nats")
    table = Table("symbol", "name", "probability", box=SIMPLE, title="heaviest symbols")
    for symbol in found["heaviest"]:
        table.add_row(str(symbol["symbol"]), escape(symbol["name"]), f"{symbol['probability']:.3%}")
    results.print(table)


def _describe(found: Reference, top: int) -> dict[str, Any]:
    p, domain = found.probabilities, found.domain
    positive = p[p > 0]
    heaviest = [s for s in np.argsort(-p, kind="stable")[:top].tolist() if p[s] > 0]
    return {
        "reference": found.fingerprint,
        "domain": domain.fingerprint,
        "kind": domain.kind,
        "symbols": domain.size,
        "possible": len(positive),
        "entropy": float(-(positive * np.log(positive)).sum()),
        "heaviest": [
            {"symbol": s, "name": domain.name_of(s), "probability": float(p[s])} for s in heaviest
        ],
    }
