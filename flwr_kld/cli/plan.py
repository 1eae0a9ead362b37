"""``flwr-kld plan``: what checks will tell, find and cost, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import track
from rich.table import Table

from flwr_kld.cli.common import (
    DEFAULT_POPULATION,
    AsJson,
    existing_ledger,
    messages,
    print_json,
    results,
    say,
)
from flwr_kld.cli.reference import in_words, most_first
from flwr_kld.domain.table import Table as DataTable
from flwr_kld.kernel.promise import Protects, WholeClients
from flwr_kld.reference import Reference
from flwr_kld.report.entries import report_of
from flwr_kld.report.report import Report
from flwr_kld.report.words import table_of

if TYPE_CHECKING:
    from flwr_kld.planner.forecast import Forecast
    from flwr_kld.planner.last_check import LastCheck
    from flwr_kld.trust import Trust

_RELIED_ON = 0.8
"""Part of the clients in an exchange that distributed noise is sized for."""


def plan(
    reference: Annotated[Path, typer.Argument(help="Reference that was saved, .json.")],
    *,
    clients: Annotated[
        list[int] | None,
        typer.Option(min=2, help="Number of clients that answer; may be repeated."),
    ] = None,
    records: Annotated[
        float | None, typer.Option(help="Mean number of records per client.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="Clients, records and their correlation as in a check: a ledger's URL, whose last "
            "one counts, or a report's JSON file."
        ),
    ] = None,
    like_population: Annotated[
        str, typer.Option(help="Name of the population in that ledger.")
    ] = DEFAULT_POPULATION,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Epsilon of a check, in nats; may be repeated.")
    ] = None,
    delta: Annotated[
        float, typer.Option(min=0, max=1, help="Delta of a check: tables need less noise with it.")
    ] = 0.0,
    table: Annotated[
        Path | None,
        typer.Option(help="Data dictionary, table.toml, whose thresholds are to hold."),
    ] = None,
    threshold: Annotated[
        float,
        typer.Option(
            min=0, help="Tolerated divergence of columns that have no threshold, in nats."
        ),
    ] = 0.0,
    estimate_only: Annotated[
        bool, typer.Option("--estimate-only", help="Plan checks that decide nothing.")
    ] = False,
    cells: Annotated[int, typer.Option(min=16, help="Number of cells of the query.")] = 1000,
    trust: Annotated[
        Literal["trusted", "trusted-aggregator", "two-aggregators", "distributed"],
        typer.Option(help="Who adds the noise."),
    ] = "trusted",
    secure_sum: Annotated[
        bool, typer.Option("--secure-sum", help="With --trust trusted: use secure sums.")
    ] = False,
    whole_clients: Annotated[
        int | None,
        typer.Option(
            min=1, help="Protect whole clients of at most so many records; else single records."
        ),
    ] = None,
    correlation: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Correlation of a client's records: 0 independent, 1 identical."
        ),
    ] = None,
    population: Annotated[
        int | None, typer.Option(help="Clients among whom cohorts rotate; by default those asked.")
    ] = None,
    nights: Annotated[
        int,
        typer.Option(
            min=1, help="Checks of the same records that one epsilon pays for: a standing session."
        ),
    ] = 1,
    moves: Annotated[
        int | None,
        typer.Option(
            min=2, help="With --nights: how often a record may come or go in all; 2 by default."
        ),
    ] = None,
    checks: Annotated[int, typer.Option(min=1, help="Checks a year.")] = 365,
    drift: Annotated[
        Literal["spread", "tilted", "vanishing", "one symbol"],
        typer.Option(help="Shape of the drift to find."),
    ] = "spread",
    as_json: AsJson = False,
) -> None:
    """Forecast error, smallest drift found, epsilon a year, seconds; no client is asked."""
    # Imported here: the other commands do without it.
    from flwr_kld.planner import Setting
    from flwr_kld.planner import plan as forecasts
    from flwr_kld.planner.forecast import flat
    from flwr_kld.planner.setting import design_effect_of

    known = Reference.load(reference, None if table is None else DataTable.from_toml(table))
    last = None if like is None else last_check(like, like_population)
    if last is not None:
        clients, records = clients or [last.clients], records or last.records
        say(f"assumed: {last}")
    if not clients or records is None:
        raise ValueError("give --clients and --records, or --like, a check's ledger or report")
    protects: Protects = "record" if whole_clients is None else WholeClients(whole_clients)
    effects = None
    if last is not None and correlation is None:
        effects = last.effects(records)
    settings = [
        Setting(
            clients=cohort,
            records=records,
            trust=standing(
                trust_of(
                    trust,
                    amount,
                    delta,
                    protects,
                    cohort,
                ),
                nights,
                moves,
            ),
            threshold=None if estimate_only else threshold,
            cells=cells,
            aggregation="secure-sum" if secure_sum else None,
            design_effect=design_effect_of(max(records, 1.0), correlation or 0.0),
            population=present,
            checks=checks,
        )
        for cohort in clients
        for present in [population or (last.among(cohort) if last else None)]
        for amount in epsilon or [1.0]
    ]
    watched = track(settings, "forecasting", console=messages, transient=True)
    rows = forecasts(known, watched, drift=drift, design_effects=effects)
    if as_json:
        print_json(flat(rows))
    else:
        for forecast in _tables(rows):
            results.print(forecast, "")
        if checks > 1 and (trust == "distributed" or secure_sum):
            results.print("secure sums have no standing session: every check pays", markup=False)
        each = {str(one.column): one.reference_records for one in rows[0].by_column}
        if needed := most_first(each):
            results.print(f"reference: {in_words(known, needed)}", markup=False)


def last_check(place: str, population: str) -> LastCheck:
    """Read the last check of a ledger, or a report's file."""
    from flwr_kld.planner.last_check import LastCheck

    if "://" not in place:
        file = Path(place)
        try:
            return LastCheck.of(Report.from_json(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{place} is not a check's report: {error}") from None
    for entry in existing_ledger(place).newest_first(population):
        if (report := report_of(entry)) is not None:
            return LastCheck.of(report)
    raise ValueError(f"{place} has no check of population {population!r} that gave a report")


def standing(trust: Trust, nights: int, moves: int | None) -> Trust:
    """Return the session of so many nights under a trust model; itself for one."""
    if nights == 1:
        if moves is not None:
            raise ValueError("--moves goes with --nights: without a session each check is paid for")
        return trust
    from flwr_kld.standing.standing import Standing

    return Standing(trust, nights, moves or 2)  # type: ignore[arg-type]  # it refuses others


def trust_of(name: str, epsilon: float, delta: float, protects: Protects, clients: int) -> Trust:
    """Return the model of that name, for this many clients in an exchange."""
    from flwr_kld.messages.sealing import AggregatorKey
    from flwr_kld.trust.distributed import Distributed
    from flwr_kld.trust.trusted import Trusted, TrustedAggregator, TwoAggregators

    if name == "distributed":
        least = max(int(_RELIED_ON * clients), 2)
        if not delta:
            return Distributed(epsilon, least, protects=protects)
        return Distributed(epsilon, least, delta, "discrete-gaussian", protects)
    if name == "trusted-aggregator":  # any key: nobody will seal counts to it
        return TrustedAggregator(
            epsilon, delta, protects=protects, aggregator=AggregatorKey.generate().public
        )
    if name == "two-aggregators":
        pair = AggregatorKey.generate().public, AggregatorKey.generate().public
        return TwoAggregators(epsilon, delta, protects=protects, aggregators=pair)
    return Trusted(epsilon, delta, protects=protects)


def _tables(rows: Sequence[Forecast]) -> Iterator[Table]:
    """Yield a row for each setting; then for each one on a table, a row for each column."""
    of_table = bool(rows[0].columns)
    about = (
        "divergences and ε in nats; finds: the least drift that is found with the power; quiet: "
        "where nothing drifted, drifts of the usual shapes from here on are excluded (– "
        "inconclusive); ε a year of one person, at δ = 1e-6"
    )
    if of_table:
        about += "; error, finds and quiet are those of the column that is the hardest to check"
    yield table_of(
        ("clients", "ε", "records", "noise", "error", "finds", "quiet", "ε a year", "seconds"),
        ((_cells(row), False) for row in rows),
        left=(),
        caption=about,
        title=f"what checks will tell, find and cost ({rows[0].drift} drift)",
    )
    for row in rows if of_table else ():
        yield table_of(
            ("column", "tolerated", "noise", "error", "finds", "quiet"),
            (
                ((str(one.column), _tolerated(one), f"{one.noise:.3g}", *_found(one)), False)
                for one in row.by_column
            ),
            left=("column",),
            title=f"each column, of {row.setting.clients:,} clients, ε = "
            f"{row.setting.epsilon:g} in all",
        )


def _tolerated(row: Forecast) -> str:
    return "–" if row.setting.threshold is None else f"{row.setting.threshold:g}"


def _found(row: Forecast) -> tuple[str, ...]:
    seen = ("–" if nats is None else f"{nats:.3f}" for nats in (row.smallest, row.quiet_from))
    return f"{row.error:.3f}", *seen


def _cells(row: Forecast) -> tuple[str, ...]:
    return (
        f"{row.setting.clients:,}",
        f"{row.setting.epsilon:g}",
        f"{row.counted:,}",
        f"{row.noise:.3g}",
        *_found(row),
        f"{row.epsilon_per_year:.3g}",
        f"{row.seconds:.0f}",
    )
