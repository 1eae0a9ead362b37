"""``flwr-kld reference build``: the public Π, from public files or by asking clients once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from flwr_kld.cli.check_keys import check_key
from flwr_kld.cli.clients_reference import ReferenceMaker
from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION
from flwr_kld.cli.options import AsJson, Ledger, Population, RunConfig, Timeout
from flwr_kld.cli.output import print_json, results, say
from flwr_kld.cli.public_files import read_counts, read_domain, read_frame, read_records
from flwr_kld.domain.table import Table
from flwr_kld.reference import Reference


def build(
    file: Annotated[
        Path,
        typer.Argument(
            help="Reference to write, .npz; or public rows, .parquet or .csv, of which a table and "
            "its reference are made."
        ),
    ],
    *,
    source: Annotated[
        Literal["files", "clients"],
        typer.Option(
            "--from",
            help="Public files, or the clients of a deployment: its app asks them once for a "
            "noised histogram, and the ledger is charged.",
        ),
    ] = "files",
    domain: Annotated[
        Path | None,
        typer.Option(
            help='JSON file, such as {"kind": "labels", "version": 1, "names": ["bus", "car"]}.'
        ),
    ] = None,
    counts: Annotated[
        Path | None,
        typer.Option(help="How often each symbol occurs: .csv with a column 'count', .json, .npz."),
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="Raw records, one a row: .csv, .json or .npz.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Reference that is made of public rows; by default FILE as .npz."),
    ] = None,
    bins: Annotated[int, typer.Option(min=2, help="Public rows: most bins of a number.")] = 20,
    labels: Annotated[int, typer.Option(min=1, help="Public rows: most labels of a text.")] = 20,
    column: Annotated[
        list[str] | None, typer.Option(help="Public rows: a column to look at; by default all.")
    ] = None,
    interaction: Annotated[
        list[str] | None,
        typer.Option(help="Public rows: two columns whose pairs make one, such as 'age,job'."),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Weight of the uniform law mixed in, so that nothing is impossible."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Name of the reference that clients make, such as 2026-09: each is charged once."
        ),
    ] = None,
    app: Annotated[
        Path | None, typer.Option(help="Folder of the Flower app that asks; by default, this one.")
    ] = None,
    connection: Annotated[
        str | None, typer.Option(help="Name of the SuperLink connection; by default Flower's.")
    ] = None,
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    as_json: AsJson = False,
) -> None:
    """Build a reference from public files, or have clients make one privately.

    Clients see everything in it, so the files must hold no private data.

    Clients are asked only once for each --key: the ledger keeps what they made.

    Exit codes: 0 built, 3 refused (budget, cohort, guard), 4 error.
    """
    rows = file if file.suffix in (".csv", ".parquet") else None
    if rows is None and (out or column or interaction):
        raise ValueError("--out, --column and --interaction go with public rows, .parquet or .csv")
    out = file if rows is None else out or rows.with_suffix(".npz")
    if out.suffix != ".npz":
        raise ValueError(f"a reference is an .npz file, not {out.name}")
    if source == "clients" and rows is not None:
        raise ValueError(f"--from clients writes a reference: name an .npz file, not {rows.name}")
    if source == "files":
        _refuse(
            {"--key": key, "--app": app, "--connection": connection, "--run-config": run_config},
            "files need no deployment: give --from clients, or leave out",
        )
        if rows is None:
            made = _of_files(domain, counts, records, floor or 0.0)
        else:
            _refuse(
                {"--counts": counts, "--records": records},
                f"{rows.name} holds the records: leave out",
            )
            pairs = [_pair(text) for text in interaction or ()]
            made = _of_rows(rows, domain, bins, labels, column, pairs, floor or 0.0)
        made.save(out)
        unlisted = made.unlisted
        if as_json:
            print_json({"file": str(out), "reference": made.fingerprint, "unlisted": unlisted})
        for way, share in unlisted.items():
            say(f"{share:.2%} of the records are {way}: the domain's spec does not list them")
        say(f"{out}: reference {made.fingerprint}")
        return
    _refuse(
        {"--domain": domain, "--counts": counts, "--records": records, "--floor": floor},
        "the app knows what clients are to count: leave out",
    )
    if key is None:
        raise ValueError("give --key, a name for this reference: each key is charged only once")
    if not out.absolute().parent.is_dir():  # better known before anybody is asked
        raise ValueError(f"there is no folder {out.parent}: make it first")
    runs = ReferenceMaker(ledger, population, app or Path(), connection, run_config or (), timeout)
    making = runs.make(check_key(key))
    if making.reference is not None:
        making.reference.save(out)
    if as_json:
        print_json({"file": str(out) if making.reference else None, **making.to_dict()})
    else:
        results.print(*making.lines(), sep="\n", soft_wrap=True)
    if making.reference is not None:
        say(f"{out}: reference {making.reference.fingerprint}")
    raise typer.Exit(making.exit_code)


def _of_files(
    domain: Path | None, counts: Path | None, records: Path | None, floor: float
) -> Reference:
    if domain is None:
        raise ValueError("give --domain, a JSON file that says what the symbols are")
    cells = read_domain(domain)
    if counts is not None and records is None:
        return Reference.from_counts(cells, read_counts(counts, cells), floor=floor)
    if records is not None and counts is None:
        return Reference.from_samples(cells, read_records(records, cells), floor=floor)
    raise ValueError("give --counts or --records")


def _of_rows(
    rows: Path,
    domain: Path | None,
    bins: int,
    labels: int,
    columns: list[str] | None,
    interactions: list[tuple[str, str]],
    floor: float,
) -> Reference:
    frame = read_frame(rows)
    if domain is not None:
        return Reference.from_frame(read_domain(domain), frame, floor=floor)
    table = Table.from_frame(
        frame, bins=bins, labels=labels, columns=columns, interactions=interactions
    )
    for name, reason in table.left_out.items():
        say(f"{name} is left out: {reason}")
    say(f"{len(table.columns)} columns: {', '.join(table.columns)}")
    return Reference.from_frame(table, frame, floor=floor)


def _pair(text: str) -> tuple[str, str]:
    first, comma, second = text.partition(",")
    if not comma:
        raise ValueError(f"an interaction is two columns, such as 'age,job', not {text!r}")
    return first, second


def _refuse(options: Mapping[str, object], why: str) -> None:
    """Refuse options that do not go with ``--from``."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(f"{why} {', '.join(given)}")
