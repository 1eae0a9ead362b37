"""``flwr-kld history``: the ledger's checks."""

from __future__ import annotations

from typing import Any

from flwr_kld.cli.ledgers import DEFAULT_LEDGER, DEFAULT_POPULATION, checks_of, existing_ledger
from flwr_kld.cli.options import AsJson, Last, Ledger, Population
from flwr_kld.cli.output import print_json, results, say
from flwr_kld.cli.show import checks_table, failures
from flwr_kld.ledger import Entry


def history(
    *,
    ledger: Ledger = DEFAULT_LEDGER,
    population: Population = DEFAULT_POPULATION,
    last: Last = 30,
    as_json: AsJson = False,
) -> None:
    """Show the latest checks of a population, oldest first."""
    entries = existing_ledger(ledger).history(population)[-last:]
    if as_json:
        print_json([_as_dict(entry) for entry in entries])
        return
    checks = checks_of(entries)
    if not checks:
        say(f"the ledger has no checks of population {population!r}")
        return
    results.print(checks_table(checks, title=f"Checks of {population}"))
    results.print(*failures(checks), sep="\n")


def _as_dict(entry: Entry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "population": entry.population,
        "purpose": entry.purpose,
        "key": entry.key,
        "started": entry.started.isoformat(),
        "ended": entry.ended and entry.ended.isoformat(),
        "state": entry.state,
        "note": entry.note,
        "report": entry.report if entry.purpose == "check" else None,
    }
