"""``flwr-kld reference``: make, describe and recommend the public Π."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich import table as rich_table
from rich.box import SIMPLE
from rich.markup import escape
from rich.text import Text

from flwr_kld._extras import require
from flwr_kld.accounting import Ledger, LedgerError
from flwr_kld.accounting.entry import Entry
from flwr_kld.accounting.kept_reference import kept_reference
from flwr_kld.cli.app_runs import AppRuns, head
from flwr_kld.cli.check import check_key
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AsJson,
    ExitCode,
    LedgerUrl,
    Population,
    RunConfig,
    Timeout,
    existing_ledger,
    print_json,
    results,
    say,
)
from flwr_kld.cli.flower_run import STATISTICS_IN_RUN_CONFIG
from flwr_kld.cli.public_files import (
    read_counts,
    read_domain,
    read_frame,
    read_records,
    say_dialect,
)
from flwr_kld.cli.reference_rows import DEFAULT_THRESHOLD, in_words, rows_of_columns
from flwr_kld.domain.base import Domain
from flwr_kld.domain.dialect import is_text_file
from flwr_kld.domain.frame import TextFile
from flwr_kld.domain.table import Table, require_one_symbol
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.reference import Reference
from flwr_kld.report.entries import report_of, statistics_of, why_no_report
from flwr_kld.report.statistics_report import StatisticsReport

if TYPE_CHECKING:
    from flwr_kld.integral.recommend import Recommendation


def recommend(
    *,
    draws: Annotated[int, typer.Option(min=1, help="k: integrally private draws wanted.")],
    epsilon: Annotated[
        float, typer.Option(help="Budget of either way, in nats; all draws together.")
    ],
    records: Annotated[int, typer.Option(min=1, help="Number of private records.")],
    size: Annotated[
        int | None,
        typer.Option(min=2, help="Symbols of the domain; their law is guessed (Zipf's)."),
    ] = None,
    guess: Annotated[
        Path | None,
        typer.Option(help="Instead of --size: a public reference, .npz, that resembles the truth."),
    ] = None,
    adjacency: Annotated[
        Adjacency, typer.Option(help="What the histogram's noise hides.")
    ] = Adjacency.REPLACE_ONE,
    as_json: AsJson = False,
) -> None:
    """Say whether integrally private draws or clients' noised histogram make the better reference.

    Both are simulated on a public guess of the data; no client is asked.
    """
    # Imported here: the other commands do without it.
    from flwr_kld.integral import recommend as advise

    population = None
    if guess is not None:
        reference = Reference.load(guess)
        require_one_symbol(reference.domain, "recommend")
        population = reference.probabilities
    if population is not None and size is None:
        size = len(population)
    elif population is not None or size is None:
        raise ValueError("give --size or --guess")
    advice = advise(
        draws=draws,
        epsilon=epsilon,
        records=records,
        size=size,
        population=population,
        adjacency=adjacency,
    )
    if as_json:
        print_json(asdict(advice))
        return
    results.print(_table(advice, draws, epsilon))
    results.print(advice.advice, soft_wrap=True)
    results.print(
        f"a check against the histogram's reference reads about {advice.read_unchanged:.3f} nats "
        "where nothing has changed: set the threshold above it",
        soft_wrap=True,
    )


def _table(found: Recommendation, draws: int, epsilon: float) -> rich_table.Table:
    table = rich_table.Table(
        title="expected KL from the truth",
        caption=f"nats; ε = {epsilon:g} in all",
        box=SIMPLE,
    )
    table.add_column("what is published")
    table.add_column("KL", justify="right")
    table.add_column("protects")
    everybody = "everybody at once"
    for what, kl, protects in (
        ("the uniform law, without any data", found.base_kl, "–"),
        ("a noised histogram (--from clients)", found.histogram_kl, "one record"),
        (f"k = {draws:,} draws: the law of each", found.exemplar_kl, everybody),
        ("k draws: a reference mixed of all", found.draws_kl, everybody),
    ):
        table.add_row(what, f"{kl:.3f}", protects)
    return table


@dataclass(frozen=True)
class Making:
    """How the making of a reference ended."""

    key: str  # Its idempotency key
    # Whether the app ran now; otherwise the ledger had the reference, or an error came first
    ran: bool
    reference: Reference | None = None  # What clients made
    report: StatisticsReport | None = None  # What it was made of
    failure: ExitCode | None = None  # `ExitCode.REFUSED` or `ExitCode.ERROR`, if there is none
    message: str | None = None  # Why there is none

    @property
    def exit_code(self) -> int:
        """0 for a reference."""
        return int(self.failure or 0)

    @property
    def outcome(self) -> str:
        """``"made"``, or what went wrong."""
        return "made" if self.failure is None else self.failure.words

    def head(self, what: str) -> Text:
        """Say in one line how the making of this ended."""
        return head(self.failure, f"{what} {self.key}", ran=self.ran)

    def lines(self) -> Iterator[Text]:
        """Yield how it ended, in lines."""
        yield self.head("reference")
        yield Text(self.report.brief if self.report else self.message or "")

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able form; of the reference itself, its fingerprint."""
        return {
            "key": self.key,
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "ran": self.ran,
            "message": self.message,
            "report": self.report and self.report.to_dict(),
        }


class ReferenceMaker(AppRuns):
    """Whom to ask for references."""

    def make(self, key: str) -> Making:
        """Have the reference of this key made, unless it was. Errors are answers, too."""
        ending = self.once(key, STATISTICS_IN_RUN_CONFIG)
        entry, ran = ending.entry, ending.ran
        if entry is None or entry.state != "settled":
            return Making(key, ran, failure=ending.code, message=ending.why)
        try:
            return Making(key, ran, *self._kept(entry))
        except (ValueError, LedgerError) as error:
            return Making(key, ran, failure=ExitCode.ERROR, message=str(error))

    def _kept(self, entry: Entry) -> tuple[Reference, StatisticsReport]:
        """Return what the ledger keeps of a key that settled."""
        report = statistics_of(entry)
        if report is None:
            raise ValueError(
                f"what the ledger has under {entry.key!r} is not a reference, or is one of another "
                "version of flwr-kld: give another --key"
            )
        reference = kept_reference(Ledger(self.ledger), entry.key, population=self.population)
        if reference.fingerprint != report.reference:
            raise ValueError(
                f"the reference that the ledger keeps as {entry.key!r} is damaged: restore the "
                "ledger from a backup, or give another --key"
            )
        return reference, report


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
        Literal["files", "clients", "check"],
        typer.Option(
            "--from",
            help="Public files; the clients of a deployment, whose app asks them once for a noised "
            "histogram, and the ledger is charged; or a check that the ledger has, free of charge.",
        ),
    ] = "files",
    table: Annotated[
        Path | None,
        typer.Option(help="Public rows: their data dictionary, table.toml; else one is made."),
    ] = None,
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
        list[str] | None,
        typer.Option(
            help="Public rows: a column to take, whatever it holds; by default all that serve."
        ),
    ] = None,
    interaction: Annotated[
        list[str] | None,
        typer.Option(help="Public rows: two columns whose pairs make one, such as 'age,job'."),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help="Public rows: name of one more column, such as 'dependence': a model's score of "
            "how a row's columns go together. It is written into --table, too. Needs scikit-learn."
        ),
    ] = None,
    floor: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Weight of the uniform law mixed in, so that nothing is impossible."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Nats that checks will tolerate in a column without a threshold of its own, by "
            f"default {DEFAULT_THRESHOLD:g}: says how many records that needs.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Name of the reference that clients make, such as 2026-09: each is charged once; "
            "or of the check."
        ),
    ] = None,
    compared_with: Annotated[
        Path | None, typer.Option(help="Reference that the check compared with, .npz or .json.")
    ] = None,
    app: Annotated[
        Path | None, typer.Option(help="Folder of the Flower app that asks; by default, this one.")
    ] = None,
    connection: Annotated[
        str | None, typer.Option(help="Name of the SuperLink connection; by default Flower's.")
    ] = None,
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    as_json: AsJson = False,
) -> None:
    """Build a reference from public files or an earlier check, or have clients make one privately.

    Clients see everything in it, so the files must hold no private data. What a check released is
    public: this quarter's clients against the last one's cost what the two checks cost.

    Clients are asked only once for each --key: the ledger keeps what they made.

    Exit codes: 0 built, 3 refused (budget, cohort, guard), 4 error.
    """
    rows = file if file.suffix == ".parquet" or is_text_file(file) else None
    if rows is None and (out or table or column or interaction or score):
        raise ValueError(
            "--out, --table, --column, --interaction and --score go with public rows, .parquet or "
            ".csv"
        )
    out = file if rows is None else out or rows.with_name(rows.name.split(".")[0] + ".npz")
    require_ending(out)
    if source != "files" and rows is not None:
        raise ValueError(f"--from {source} writes a reference: name an .npz file, not {rows.name}")
    deployment = {"--app": app, "--connection": connection, "--run-config": run_config}
    public = {"--domain": domain, "--counts": counts, "--records": records, "--floor": floor}
    if source != "check":
        _refuse({"--compared-with": compared_with}, "give --from check, or leave out")
    if source == "files":
        why = "files need no deployment and no ledger: give --from clients, or leave out"
        _refuse({"--key": key, **deployment}, why)
    if source != "clients":
        if source == "check":
            _refuse({**deployment, **public}, "the check has counted already: leave out")
            made = _of_check(key, compared_with, ledger, population)
        elif rows is None:
            made = _of_files(domain, counts, records, floor or 0.0)
        else:
            _refuse(
                {"--counts": counts, "--records": records},
                f"{rows.name} holds the records: leave out",
            )
            pairs = [_pair(text) for text in interaction or ()]
            if table is not None and (domain or column or pairs):
                raise ValueError("the data dictionary says what columns are: give --table alone")
            known = read_domain(domain) if domain else Table.from_toml(table) if table else None
            made = _of_rows(rows, known, bins, labels, column, pairs, floor or 0.0, score)
        made.save(out)
        if score and table is not None and isinstance(made.domain, Table):
            made.domain.to_toml(table)
        unlisted = made.unlisted
        if as_json:
            needed = rows_of_columns(made, threshold)
            print_json(
                {
                    "file": str(out),
                    "reference": made.fingerprint,
                    "unlisted": unlisted,
                    "records": made.records,
                    "records_needed": needed,
                }
            )
        for way, share in unlisted.items():
            say(f"{share:.2%} of the records are {way}: the domain's spec does not list them")
        _tell(made, out, threshold)
        return
    _refuse(public, "the app knows what clients are to count: leave out")
    if key is None:
        raise ValueError("give --key, a name for this reference: each key is charged only once")
    require_place(out)
    runs = ReferenceMaker(ledger, population, app or Path(), connection, run_config or (), timeout)
    making = runs.make(check_key(key))
    if making.reference is not None:
        making.reference.save(out)
    if as_json:
        print_json({"file": str(out) if making.reference else None, **making.to_dict()})
    else:
        results.print(*making.lines(), sep="\n", soft_wrap=True)
    if making.reference is not None:
        _tell(making.reference, out, threshold)
    raise typer.Exit(making.exit_code)


def require_ending(out: Path) -> None:
    """Refuse to write a reference to a file of another kind."""
    if out.suffix not in (".npz", ".json"):
        raise ValueError(f"a reference is an .npz or .json file, not {out.name}")


def require_place(out: Path) -> None:
    """Notice a folder that is not there before anybody is asked."""
    if not out.absolute().parent.is_dir():
        raise ValueError(f"there is no folder {out.parent}: make it first")


def _tell(made: Reference, file: Path, threshold: float | None) -> None:
    """Say what was written, and whether its records are enough."""
    if needed := rows_of_columns(made, threshold):
        say(f"{file}: {in_words(made, needed)}")
    say(f"{file}: reference {made.fingerprint}")


def _of_check(key: str | None, compared_with: Path | None, ledger: str, name: str) -> Reference:
    """Make a reference of what a check in the ledger released."""
    if key is None or compared_with is None:
        raise ValueError("give --key, the check's, and --compared-with, the reference that it had")
    entry = existing_ledger(ledger).check(key, population=name)
    if entry is None:
        raise ValueError(f"the ledger has no check {key!r} of population {name!r}")
    report = report_of(entry)
    if report is None:
        raise ValueError(f"key {key!r}: {why_no_report(entry)}")
    return report.as_reference(Reference.load(compared_with))


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
    known: Domain | None,
    bins: int,
    labels: int,
    columns: list[str] | None,
    interactions: list[tuple[str, str]],
    floor: float,
    score: str | None,
) -> Reference:
    if known is not None:
        return Reference.from_frame(known, read_frame(rows, known), floor=floor, score=score)
    frame = read_frame(rows)
    table = Table.from_frame(
        frame, bins=bins, labels=labels, columns=columns, interactions=interactions
    )
    if not isinstance(frame, TextFile):  # which was recognised when it was read
        say_dialect(str(rows), table.dialect)
    for name, reason in table.left_out.items():
        say(f"{name} is left out: {reason}")
    say(f"{len(table.columns)} columns: {', '.join(table.columns)}")
    return Reference.from_frame(table, frame, floor=floor, score=score)


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
        table = rich_table.Table(
            "column", "kind", "symbols", "not listed", box=SIMPLE, title="columns"
        )
        for column in columns:
            name, unlisted = escape(column["name"]), f"{column['unlisted']:.2%}"
            table.add_row(name, column["kind"], str(column["symbols"]), unlisted)
        results.print(table)
    table = rich_table.Table("symbol", "name", "probability", box=SIMPLE, title="heaviest symbols")
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
        **({"columns": columns} if found.is_table else {}),
        "entropy": float(-(positive * np.log(positive)).sum()),
        "heaviest": [
            {"symbol": s, "name": domain.name_of(s), "probability": float(p[s])} for s in heaviest
        ],
    }


def _draw(reference: Reference, file: Path) -> None:
    """Draw the probabilities of each column as bars."""
    figures = require("matplotlib.figure", extra="plots")
    columns = reference.columns
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
