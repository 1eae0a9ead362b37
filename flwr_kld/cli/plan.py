"""``flwr-kld plan``: forecasts what checks report, find and cost, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer
from rich.progress import track
from rich.table import Table as Shown

from flwr_kld.cli.budget import lines_of_kinds
from flwr_kld.cli.common import (
    DEFAULT_POPULATION,
    NIGHTLY,
    AsJson,
    messages,
    print_json,
    print_note,
    results,
)
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.cli.new_app import STANDING_DELTA
from flwr_kld.cli.reference import DEFAULT_THRESHOLD, in_words, most_first, require_effect
from flwr_kld.cli.schedule import SESSION_DAYS, checks_of_a_year, parse_schedule
from flwr_kld.kernel import Guarantee
from flwr_kld.kernel.continual import MOST_NIGHTS
from flwr_kld.reference import Reference
from flwr_kld.report.entries import report_of
from flwr_kld.report.report import Report
from flwr_kld.report.words import table_of
from flwr_kld.table.table import Table
from flwr_kld.views import view_of
from flwr_kld.views.forecast import MEANING

if TYPE_CHECKING:
    from flwr_kld.planner.forecast import Forecast
    from flwr_kld.report.last_check import LastCheck
    from flwr_kld.trust import Trust

_RELIED_ON = 0.8
"""Part of the clients in an exchange that distributed noise is sized for."""
_MOVES = 4
"""As in apps of `flwr-kld init`: a record comes, may change once, and goes."""

_SECURE_SUMS = ("secure-sum", "distributed")
_NO_SESSION = "secure sums have no standing session: every check pays"

Who = Literal["trusted", "secure-sum", "trusted-aggregator", "two-aggregators", "distributed"]


def plan(
    reference: Annotated[Path, typer.Argument(help="Reference that was saved, .json.")],
    *,
    clients: Annotated[
        list[int] | None,
        typer.Option(min=2, help="Number of clients that answer a check; may be repeated."),
    ] = None,
    population: Annotated[
        int | None,
        typer.Option(
            "--among",
            help="Number of clients that take turns in checks; by default all are asked each time.",
        ),
    ] = None,
    records: Annotated[
        float | None, typer.Option(help="Mean number of records per client.")
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(
            help="Take clients, records, their correlation and privacy from a check: the last one "
            "in a ledger, given by its URL or URL#POPULATION; or a report's JSON file."
        ),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(help="Epsilon of a check, in nats, 1 by default; may be repeated."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Delta of a check, by default 0; of a standing session, 1e-6. Tables need less "
            "noise with it.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Tolerated divergence, in nats, of columns without a threshold in the table; 0.1 "
            "by default.",
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="The reference's data dictionary, table.toml, with other thresholds to try."
        ),
    ] = None,
    trust: Annotated[
        Who | None,
        typer.Option(
            help="Trust model: who adds the noise. secure-sum is trusted with a secure sum. By "
            "default trusted, or as in the check of --like."
        ),
    ] = None,
    schedule: Annotated[
        str,
        typer.Option(help="When checks come: a cron expression or 'every 6h'; by default nightly."),
    ] = NIGHTLY,
    standing: Annotated[
        bool,
        typer.Option(
            "--standing",
            help="All checks of a year count the same records, each of which may change once, and "
            "one epsilon pays for them: a standing session.",
        ),
    ] = False,
    training: Annotated[
        tuple[int, float] | None,
        typer.Option(
            metavar="ROUNDS NOISE",
            help="Rounds of DP training in a year, beside the checks, and their noise multiplier, "
            "as Flower's fixed clipping takes it: --training 400 1.0.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Forecast what a check finds, what it costs and how long it takes; no client is asked.

    With a ledger under --like, also show what checks and training spent, and what is left.
    """
    # Imported here: the other commands do without it.
    from flwr_kld.planner import Setting, forecast

    checks = checks_of_a_year(parse_schedule(schedule))
    rounds, noise_multiplier = training or (0, 1.0)
    known = Reference.load(reference, None if table is None else Table.from_toml(table))
    require_effect(threshold, known.domain)
    last = None if like is None else last_check(like)
    if last is not None:
        clients, records = clients or [last.clients], records or last.records
        print_note(f"assumed: {last}")
    trust = trust or _trust_of_check(last)
    if trust == "distributed" and delta == 0:
        raise ValueError("--delta 0: distributed noise needs a delta above 0, such as 1e-6")
    if not clients or records is None:
        raise ValueError("give --clients and --records, or --like, a check's ledger or report")
    if population is not None and population < max(clients):
        raise ValueError(f"--among {population:,} is less than --clients {max(clients):,}")
    nights = checks if standing else 1
    usual = Guarantee(1.0) if last is None else last.guarantee
    if standing and usual.delta == 0:
        usual = replace(usual, delta=STANDING_DELTA)
    settings = [
        Setting(
            clients=cohort,
            records=records,
            trust=trust_of(trust, _promised(usual, amount, delta), cohort, nights),
            threshold=DEFAULT_THRESHOLD if threshold is None else threshold,
            aggregation=trust if trust == "secure-sum" else None,
            population=population or (last.among(cohort) if last else None),
            checks=checks,
            rounds=rounds,
            noise_multiplier=noise_multiplier,
        )
        for cohort in clients
        for amount in epsilon or [usual.epsilon]
    ]
    effects = None if last is None else last.effects(records)
    watched = track(settings, "forecasting", console=messages, transient=True)
    rows = [forecast(known, one, design_effects=effects) for one in watched]
    if as_json:
        print_json([column.to_dict() for row in rows for column in row.by_column])
        return
    for shown in _tables(rows):
        results.print(shown, "")
    if rounds:
        for one in settings:
            alone, together = one.epsilon_of_training, one.epsilon_with_training
            results.print(
                f"{rounds:,} rounds of training a year at noise multiplier {noise_multiplier:g}: "
                f"ε {alone:.3g}; with checks of {one.clients:,} clients at ε {one.epsilon:g}: "
                f"{together:.3g}, at δ {one.delta_with_training:.2g}",
                markup=False,
            )
    if like is not None and "://" in like:
        url, population_of = _place(like)
        opened = existing_ledger(url)
        for line in lines_of_kinds(opened, opened.spent(population_of)):
            results.print(line, markup=False)
    if trust in _SECURE_SUMS:
        results.print(_NO_SESSION, markup=False)
    each = {str(one.column): one.reference_records for one in rows[0].by_column}
    if needed := most_first(each):
        results.print(f"reference: {in_words(known, needed)}", markup=False)


def _trust_of_check(last: LastCheck | None) -> Who:
    """Return the trust model of a check; one of another kind is forecast as trusted."""
    if last is None:
        return "trusted"
    name = last.trust if last.aggregation != "secure-sum" else "secure-sum"
    return next((who for who in get_args(Who) if who == name), "trusted")


def _promised(usual: Guarantee, epsilon: float, delta: float | None) -> Guarantee:
    return Guarantee(epsilon, usual.delta if delta is None else delta, usual.protects)


def last_check(place: str) -> LastCheck:
    """Read the last check of a ledger, or a report's file."""
    from flwr_kld.report.last_check import LastCheck

    if "://" not in place:
        file = Path(place)
        try:
            return LastCheck.of(Report.from_json(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{place} is not a check's report: {error}") from None
    url, population = _place(place)
    for entry in existing_ledger(url).newest_first(population):
        if (report := report_of(entry)) is not None:
            return LastCheck.of(report)
    raise ValueError(
        f"{url} has no check of population {population!r} that gave a report; for another, such as "
        "that of an app's simulations, give URL#simulated"
    )


def _place(like: str) -> tuple[str, str]:
    """Return a ledger's URL, and the population that is meant."""
    url, _, population = like.partition("#")
    return url, population or DEFAULT_POPULATION


def trust_of(name: Who, promised: Guarantee, clients: int, nights: int) -> Trust:
    """Return the model of that name, for so many clients in an exchange and nights in a year."""
    from flwr_kld.trust.distributed import Distributed
    from flwr_kld.trust.sealing import AggregatorKey
    from flwr_kld.trust.standing import Standing
    from flwr_kld.trust.trusted import CentralNoise, Trusted, TrustedAggregator, TwoAggregators

    epsilon, delta, protects = promised.epsilon, promised.delta, promised.protects
    key, other = (AggregatorKey.generate().public for _ in range(2))  # nobody seals counts to them
    if nights > 1 and name in _SECURE_SUMS:
        raise ValueError(f"--standing: {_NO_SESSION}")
    if nights > MOST_NIGHTS:
        raise ValueError(
            f"--standing: {nights:,} checks a year are more than one session has, {MOST_NIGHTS:,}: "
            "let them come more rarely"
        )
    if name == "distributed":
        relied_on = max(int(_RELIED_ON * clients), 2)
        return Distributed(epsilon, relied_on, delta or Distributed.delta, protects=protects)
    if name == "trusted-aggregator":
        trust: CentralNoise = TrustedAggregator(epsilon, delta, protects=protects, aggregator=key)
    elif name == "two-aggregators":
        trust = TwoAggregators(epsilon, delta, protects=protects, aggregators=(key, other))
    else:
        trust = Trusted(epsilon, delta, protects=protects)
    return Standing(trust, nights, _MOVES, days=SESSION_DAYS) if nights > 1 else trust


_MEANING = {
    **MEANING,
    "ε, δ a year": "of one person, for all checks of the schedule, by a budget's usual composition",
    "seconds": "of a check: how often nodes poll decides",
}


def _tables(rows: Sequence[Forecast]) -> Iterator[Shown]:
    """Yield a row for each setting; of a table, also a row for each column; and what they mean."""
    of_table = bool(rows[0].columns)
    about = f"that tolerates {rows[0].setting.threshold:g} nats"
    if of_table:
        about = "of a table: its column that is hardest to check"
    yield table_of(
        (
            "clients",
            "ε",
            "records",
            "noise",
            "error",
            "finds",
            "excludes",
            "ε, δ a year",
            "seconds",
        ),
        ((_cells(row), False) for row in rows),
        left=(),
        title=f"forecast of a check {about}",
    )
    for row in rows if of_table else ():
        heads, cells = view_of(row).table()
        yield table_of(
            heads,
            ((one, False) for one in cells),
            left=("column",),
            title=f"columns, with {row.setting.clients:,} clients and ε = {row.setting.epsilon:g}",
        )
    meaning = Shown.grid(padding=(0, 2))
    for words in _MEANING.items():
        meaning.add_row(*words)
    yield meaning


def _cells(row: Forecast) -> tuple[str, ...]:
    setting, (_, hardest) = row.setting, view_of(row).table()
    return (
        f"{setting.clients:,}",
        f"{setting.epsilon:g}",
        f"{setting.total:,}",
        *hardest[0][2:],  # as in the table of columns
        f"{setting.epsilon_per_year:.3g}, {setting.delta_per_year:.2g}",
        f"{setting.seconds:.0f}",
    )
