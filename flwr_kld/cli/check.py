"""``flwr-kld check`` and ``flwr-kld watch``: one check, or one at each slot of a schedule."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.after_check import AfterCheck
from flwr_kld.cli.app_runs import Answer, AppRuns, require_key
from flwr_kld.cli.common import (
    DEFAULT_LEDGER,
    DEFAULT_POPULATION,
    AsJson,
    Connection,
    FlowerApp,
    LedgerUrl,
    MetricsFile,
    NotifyFile,
    Population,
    RunConfig,
    Timeout,
    Zone,
    print_json,
    print_note,
    refuse_given,
    results,
)
from flwr_kld.cli.flower_app import facts_of, require_app, require_same
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.cli.schedule import (
    Schedule,
    parse_schedule,
    run_schedule,
    slot_key,
    stop_on_signals,
)
from flwr_kld.cli.show import answer_lines
from flwr_kld.views.prometheus import MonitorState, serve_metrics

_MINUTE = timedelta(minutes=1)
"""Slots are at least this far apart."""

_LONGEST_GAP = timedelta(days=366 * 8) // _MINUTE
"""Slots further back are not looked for: 29 February comes every 8 years at least."""


def current_key(now: datetime, schedule: Schedule | None = None) -> str:
    """Return the key of a schedule's latest slot, or of the current UTC minute."""
    if schedule is None:
        return slot_key(now.astimezone(UTC).replace(second=0, microsecond=0))
    return slot_key(latest_slot(schedule, now))


def latest_slot(schedule: Schedule, now: datetime) -> datetime:
    """Return a schedule's last slot that is not later than `now`, by bisection."""

    def had_one(back: int) -> bool:
        return schedule.next_after(now - back * _MINUTE) <= now

    back = bisect_left(range(_LONGEST_GAP), True, key=had_one)
    if back == _LONGEST_GAP:
        raise ValueError("the schedule had no slot in the last 8 years")
    return schedule.next_after(now - back * _MINUTE)


def check(
    context: typer.Context,
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    key: Annotated[
        str | None,
        typer.Option(
            help="Name of the check: one that the ledger knows is not run again. By default the "
            "latest slot of --schedule, else this UTC minute."
        ),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="Cron expression or 'every 6h': all starts from one slot to the next are one "
            "check."
        ),
    ] = None,
    zone: Zone = "UTC",
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    metrics_file: MetricsFile = None,
    notify: NotifyFile = None,
    as_json: AsJson = False,
) -> None:
    """Run one check on a Flower connection, wait for its report and print it.

    A check that the ledger knows is not run again: its stored report is printed.

    Exit codes: 0 no drift, or no alarm, 1 drift, 2 inconclusive (or no threshold set), 3 refused
    (budget, cohort, guard), 4 error. SIGINT, SIGTERM, SIGHUP and SIGQUIT stop the run; the exit
    code is 128 plus the signal's number.
    """
    if key is not None and schedule is not None:
        raise ValueError("give --key or --schedule, not both")
    if schedule is None:
        refuse_given(context, "zone", why="without --schedule")
    slots = None if schedule is None else parse_schedule(schedule, zone=zone)
    name = require_key(key) if key is not None else current_key(datetime.now(UTC), slots)
    after = AfterCheck(metrics_file, notify, ledger, population)
    checker = AppRuns(ledger, population, app, connection, run_config or (), timeout)
    answer = checker.once(name)
    try:
        _show(answer, as_json=as_json, indent=2)
    finally:  # whether or not anybody reads standard output
        after.handle(answer)
    raise typer.Exit(answer.code)


def watch(
    context: typer.Context,
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    schedule: Annotated[
        str, typer.Option(help="Cron expression such as '0 3 * * *', or 'every 6h'.")
    ],
    zone: Zone = "UTC",
    ledger: LedgerUrl = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    run_config: RunConfig = None,
    timeout: Timeout = 900.0,
    metrics_file: MetricsFile = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Serve Prometheus metrics on this port; 0 for any."),
    ] = None,
    metrics_address: Annotated[
        str, typer.Option(help="Address to serve metrics on; by default this machine only.")
    ] = "127.0.0.1",
    notify: NotifyFile = None,
    as_json: AsJson = False,
) -> None:
    """Check in every slot of a schedule until stopped by SIGTERM or Ctrl-C.

    Missed slots are not caught up on one by one, and checks never overlap. On a signal, a running
    check is finished first; a second signal, or SIGHUP, stops its run. With --json, one line is
    written for each check.
    """
    if metrics_port is None:
        refuse_given(context, "metrics_address", why="without --metrics-port")
    slots = parse_schedule(schedule, zone=zone)
    after = AfterCheck(metrics_file, notify, ledger, population)
    # Report a mistake now, not at the first scheduled check.
    existing_ledger(ledger).budget(population)
    require_app(app)
    require_same(facts_of(app, run_config or ()), ledger, population)
    checker = AppRuns(ledger, population, app, connection, run_config or (), timeout)

    def run(slot: datetime) -> None:
        answer = checker.once(slot_key(slot))
        try:
            _show(answer, as_json=as_json)
        finally:
            after.handle(answer)

    def states() -> list[MonitorState]:
        return [after.state]

    with ExitStack() as until_the_end:
        if metrics_port is not None:
            port = until_the_end.enter_context(
                serve_metrics(states, metrics_port, address=metrics_address)
            )
            print_note(f"metrics: http://{metrics_address}:{port}/metrics")
        stop = until_the_end.enter_context(stop_on_signals())
        print_note(f"checking {schedule!r}; stop with Ctrl-C or SIGTERM")
        run_schedule(slots, run, stop=stop)
    print_note("stopped")


def _show(answer: Answer, *, as_json: bool, indent: int | None = None) -> None:
    if as_json:
        print_json(answer.to_dict(), indent=indent)
    else:
        results.print(*answer_lines(answer), sep="\n", soft_wrap=True)
