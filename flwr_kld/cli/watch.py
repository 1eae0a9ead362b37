"""``flwr-kld watch``: a check in every slot of a schedule, in one long-lived process."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION, existing_ledger
from flwr_kld.cli.one_check import CheckAnswer, Checker
from flwr_kld.cli.options import (
    AlertsFile,
    AsJson,
    Connection,
    FlowerApp,
    Ledger,
    MetricsFile,
    Population,
    RunConfig,
    Timeout,
    Zone,
)
from flwr_kld.cli.output import print_json, results, say
from flwr_kld.cli.show import answer_lines
from flwr_kld.cli.tell import Listeners, latest_state, state_after
from flwr_kld.operate.schedule import Slot, parse_schedule, run_schedule, stop_on_signals
from flwr_kld.report.prometheus import MonitorState, serve_metrics


def watch(
    app: FlowerApp = Path(),
    connection: Connection = None,
    *,
    schedule: Annotated[
        str, typer.Option(help="Cron expression such as '0 3 * * *', or 'every 6h'.")
    ],
    zone: Zone = "UTC",
    ledger: Ledger = DEFAULT_LEDGER,
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
    alerts: AlertsFile = None,
    as_json: AsJson = False,
) -> None:
    """Check in every slot of a schedule until stopped by SIGTERM or Ctrl-C.

    Missed slots are not caught up on one by one, and checks never overlap. On a signal, a running
    check is finished first; a second signal, or SIGHUP, stops its run. With --json, one line is
    written for each check.
    """
    slots = parse_schedule(schedule, zone=zone)
    listeners = Listeners.of_options(metrics_file, alerts, ledger, population, slots)
    existing_ledger(ledger).budget(population)  # a mistake is better known now than tonight
    checker = Checker(ledger, population, app, connection, run_config or (), timeout)
    state = latest_state(ledger, population)

    def run(slot: Slot) -> None:
        nonlocal state
        answer = checker.check(slot.key)
        state = state_after(answer, state)
        _show(answer, as_json=as_json)
        listeners.tell(state)

    def states() -> list[MonitorState]:
        return [state]

    with ExitStack() as until_the_end:
        if metrics_port is not None:
            port = until_the_end.enter_context(
                serve_metrics(states, metrics_port, address=metrics_address)
            )
            say(f"metrics: http://{metrics_address}:{port}/metrics")
        stop = until_the_end.enter_context(stop_on_signals())
        say(f"checking {schedule!r}; stop with Ctrl-C or SIGTERM")
        run_schedule(slots, run, stop=stop)
    say("stopped")


def _show(answer: CheckAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer.to_dict(), indent=None)
    else:
        results.print(*answer_lines(answer), sep="\n", soft_wrap=True)
