"""What all commands share: exit codes, options and output. It loads nothing of the science."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from click.core import ParameterSource
from rich.console import Console

from flwr_kld.common.json_text import json_text


class ExitCode(IntEnum):
    """How a check ended."""

    NO_DRIFT = 0  # Or no alarm
    DRIFT = 1
    INCONCLUSIVE = 2
    REFUSED = 3
    ERROR = 4

    @property
    def words(self) -> str:
        """Name in output and metrics."""
        return self.name.lower().replace("_", " ")


LedgerUrl = Annotated[
    str,
    typer.Option(
        envvar="FLWR_KLD_LEDGER",
        help="Database of the ledger: sqlite:///file.db or postgresql://user@host/name.",
    ),
]

Population = Annotated[
    str,
    typer.Option(
        envvar="FLWR_KLD_POPULATION",
        help="Name of the population whose budget and history are used.",
    ),
]

Predictor = Annotated[
    str | None, typer.Option(help="Show the rounds of the predictor of this name, not checks.")
]

AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output.")]

OwnData = Annotated[
    str | None,
    typer.Option(
        help="On a node, in place of an app or ledger: its records, the absolute path of a file or "
        "a database's URL. What is printed about them is private."
    ),
]

OwnQuery = Annotated[
    str, typer.Option(help="SQL query that selects the rows, where --data is a database.")
]

OwnConfig = Annotated[
    str,
    typer.Option(help="More of the node config by which --data is read: 'drift-decimal=\",\"'."),
]

AllowUnlisted = Annotated[
    bool,
    typer.Option(
        "--allow-unlisted",
        help="Accept columns of which more than 90 % of the rows are 'other' or 'missing'.",
    ),
]

FlowerApp = Annotated[Path, typer.Argument(help="Folder of the Flower app.")]

Connection = Annotated[
    str | None, typer.Argument(help="Name of the SuperLink connection; by default Flower's.")
]

RunConfig = Annotated[
    list[str] | None,
    typer.Option(help="Further overrides of the app's run config, as in flwr run: 'key=value'."),
]

Timeout = Annotated[
    float, typer.Option(min=1, help="Seconds until a check is given up and its run is stopped.")
]

Zone = Annotated[
    str, typer.Option(help="Time zone of the schedule's cron expression, such as Europe/Berlin.")
]

MetricsFile = Annotated[
    Path | None,
    typer.Option(help="Write Prometheus metrics to this .prom file after each check."),
]

NotifyFile = Annotated[
    Path | None,
    typer.Option(
        "--notify",
        help="File of Apprise URLs, readable by its owner only, to notify of drifts and failed "
        "checks; FLWR_KLD_NOTIFY may hold the URLs instead.",
    ),
]


class _Messages(Console):
    """A check goes on without readers: rich would end it, and standard output."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


results = Console(highlight=False)

messages = _Messages(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Write JSON to standard output, as it is: no colours, no wrapping."""
    try:  # whoever reads a pipe has each object at once
        print(json_text(value, indent=indent, ensure_ascii=results.encoding != "utf-8"), flush=True)
    except BrokenPipeError:
        results.on_broken_pipe()


def print_note(words: str) -> None:
    """Print a note for the operator that is not a result; markup in it stays as it is."""
    # A closed terminal is not an error: a check is worth more than its log.
    with suppress(OSError):
        messages.print(words, markup=False)


def complain(words: str) -> None:
    """Print what went wrong."""
    with suppress(OSError):
        messages.print("[bold red]error:[/] ", end="")
        messages.print(words, markup=False)


def refuse_given(context: typer.Context, *names: str, why: str) -> None:
    """Refuse options that a command would not read as it was called: none is ignored in silence."""
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if parameter.name in names and source is ParameterSource.COMMANDLINE:
            raise ValueError(f"{parameter.opts[0]} has no effect {why}: leave it out")


def utc(moment: datetime) -> str:
    """Write a moment to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def pairs_in(text: str) -> list[tuple[str, str]]:
    """Return keys and values, quotes and all, of ``key=value`` as Flower's commands take them."""
    pair = r"""(\S+?)=('[^']*'|"[^"]*"|\S+)"""
    if left := re.sub(pair, "", text).strip():
        raise ValueError(f"{left!r} is not key=value, as Flower's commands take it")
    return re.findall(pair, text)


DEFAULT_LEDGER = "sqlite:///drift.db"

DEFAULT_POPULATION = "default"

LONGEST_REPORT = 1 << 26
"""Bytes of a report that is read at most: a hundred times those of a check of 1,000 columns."""

NIGHTLY = "0 3 * * *"
MONTHLY = "0 3 1 * *"


def no_budget(words: str) -> str:
    """Reword a `NoBudget` for those who type commands."""
    what = words.partition(": set one")[0]
    same = "the same --ledger and --population"
    return f"{what}: set one with flwr-kld budget --set EPSILON and {same}"


_MENDS = {
    "is damaged": "restore it from a backup, or give another --ledger",
    "not a database URL": "give --ledger such a URL",
    "file is not a database": "restore it from a backup, or give another --ledger",
    "malformed": "restore it from a backup, or give another --ledger",
    "unable to open": "make its folder, writable by you, or give another --ledger",
    "No such file": "make its folder, or give another --ledger",
    "Is a directory": "name a file in it with --ledger",
    "Permission denied": "run this as the user who owns it, or give another --ledger",
    "readonly": "run this as the user who owns it, or give another --ledger",
    "disk I/O error": "look after its disk, which may be full, and run the same command again",
    "full": "free space on its disk, and run the same command again",
    "No space": "free space on its disk, and run the same command again",
    "locked": "another process is writing to it: run the same command again",
    "connect": "start the database server, or correct the URL of --ledger",
}


def unavailable(words: str) -> str:
    """Say what to do, too, about a ledger that cannot be used."""
    mends = [mend for sign, mend in _MENDS.items() if sign in words]
    return f"{words}; next: {mends[0]}" if mends else words
