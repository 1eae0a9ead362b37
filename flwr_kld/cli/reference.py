"""``flwr-kld reference``: build the public Π, and look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from flwr_kld.cli.options import AsJson
from flwr_kld.cli.output import print_json, results, say
from flwr_kld.cli.public_files import read_counts, read_domain, read_records
from flwr_kld.reference import Reference

reference = typer.Typer(help="Build and show the public reference distribution.")


@reference.command()
def build(
    out: Annotated[Path, typer.Argument(help="File to write, .npz.")],
    *,
    domain: Annotated[
        Path,
        typer.Option(
            help='JSON file, such as {"kind": "labels", "version": 1, "names": ["bus", "car"]}.'
        ),
    ],
    counts: Annotated[
        Path | None,
        typer.Option(help="How often each symbol occurs: .csv with a column 'count', .json, .npz."),
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Raw records, one a row: .csv, .json or .npz.")
    ] = None,
    floor: Annotated[
        float,
        typer.Option(min=0, max=1, help="Part of the uniform law to mix in: nothing impossible."),
    ] = 0.0,
) -> None:
    """Build a reference from public counts or records.

    Everything in it is shown to clients: never build it from private data.
    """
    if (counts is None) == (records is None):
        raise ValueError("give --counts or --records")
    if out.suffix != ".npz":
        raise ValueError(f"a reference is an .npz file, not {out.name}")
    cells = read_domain(domain)
    if counts is not None:
        made = Reference.from_counts(cells, read_counts(counts, cells), floor=floor)
    elif records is not None:
        made = Reference.from_samples(cells, read_records(records, cells), floor=floor)
    made.save(out)
    say(f"{out}: reference {made.fingerprint}")


@reference.command()
def show(
    file: Annotated[Path, typer.Argument(help="Reference, .npz.")],
    *,
    top: Annotated[int, typer.Option(min=0, help="How many of the heaviest symbols.")] = 10,
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
