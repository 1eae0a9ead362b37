"""The command line: its commands, each loaded when it is called, and how it ends.

Help, completion and ``--version`` load none of them.
"""

from __future__ import annotations

import errno
import inspect
import re
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from io import TextIOWrapper
from pkgutil import resolve_name
from types import FrameType
from typing import Annotated, Any

import click
import typer
import typer.core
from typer.utils import get_params_from_function

from flwr_kld.cli.common import ExitCode, complain, no_budget, results, unavailable
from flwr_kld.common.errors import LedgerUnavailable, NoBudget

COMMANDS = {
    "init": (
        "flwr_kld.cli.init",
        "Write a Flower app that checks the columns of a table; or add checks to an app.",
    ),
    "doctor": (
        "flwr_kld.cli.doctor",
        "Inspect everything that a check needs, or a node's records; this spends nothing.",
    ),
    "demo": (
        "flwr_kld.cli.simulate",
        "Run checks on simulated handwriters whose data drift, and on real flights; offline.",
    ),
    "simulate": (
        "flwr_kld.cli.simulate",
        "Run drift checks of images by writer on a local Flower simulation; write table and page.",
    ),
    "plan": (
        "flwr_kld.cli.plan",
        "Forecast what a check finds, what it costs and how long it takes; no client is asked.",
    ),
    "describe": (
        "flwr_kld.cli.describe",
        "Describe the clients' data: each column's values, and what is missing or unlisted.",
    ),
    "check": (
        "flwr_kld.cli.check",
        "Run one check on a Flower connection, wait for its report and print it.",
    ),
    "watch": (
        "flwr_kld.cli.check",
        "Check in every slot of a schedule until stopped by SIGTERM or Ctrl-C.",
    ),
    "report": (
        "flwr_kld.cli.show",
        "Show the latest checks of a population, or rounds of a predictor; or write them to a "
        "FILE.",
    ),
    "serve": (
        "flwr_kld.cli.serve",
        "Serve a live page over the ledger until stopped by SIGTERM or Ctrl-C. It changes nothing.",
    ),
    "budget": (
        "flwr_kld.cli.budget",
        "Set a budget, or show what checks and training spent of it and how many more it allows.",
    ),
    "receipts": (
        "flwr_kld.cli.guard",
        "List what a node answered, once each signature is verified; changes nothing.",
    ),
    "verify": (
        "flwr_kld.cli.verify",
        "Verify a signed report, offline and without a ledger; say what that proves.",
    ),
    "reference": (
        "flwr_kld.cli.reference",
        "Build and show the public reference distribution.",
    ),
    "keys": (
        "flwr_kld.cli.node_keys",
        "Make the keys that nodes sign with in secure sums, and the roster of their public keys.",
    ),
    "guard": (
        "flwr_kld.cli.guard",
        "Inspect a node's guard file.",
    ),
}
"""Module of each command, where it has the same name, and the first paragraph of its help."""

_ENDING = [n for n in signal.Signals if n.name in ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM")]
"""Signals that end a command; Windows lacks two of them."""

_INTERRUPTED = 130
_EXPECTED = (ValueError, OSError, RuntimeError, ImportError)
"""What a user can cause and mend; their words say how."""


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn the first of four signals that end a process into ``SystemExit``, 128 + its number."""
    # By default all but SIGINT end a process without running its ``finally`` blocks, which stop the
    # runs and child processes of a command. Later signals have no effect, for nothing may interrupt
    # those blocks; they take a minute at most. A signal that the process was started to ignore, as
    # under ``nohup``, stays ignored.
    #
    # Only in the main thread, as Python's signals are.
    ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ending
        if not ending:
            ending = True
            raise SystemExit(128 + number)

    before = {n: signal.getsignal(n) for n in _ENDING}
    ours = {n: handler for n, handler in before.items() if handler not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def _message_of(error: Exception) -> str:
    """Say what a user can mend."""
    if isinstance(error, OSError) and error.filename is not None:
        if isinstance(error, FileNotFoundError):
            return f"there is no file {error.filename}: correct the path"
        if isinstance(error, IsADirectoryError):
            return f"{error.filename} is a folder: name a file"
        own = "run this as the user who owns it, or give another path"
        return f"{error.filename}: {error.strerror}: {own}"
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "no space is left on the disk: free some, and run the same command again"
    return str(error) or type(error).__name__


def _mend_help(command: click.Command) -> None:
    """Give arguments their help back, and let paragraphs flow."""
    # Click 8.5 with the Typer that Flower allows loses the first, and breaks the others where a
    # docstring's lines end.
    for inner in getattr(command, "commands", {}).values():
        _mend_help(inner)
    if command.help is not None:
        command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(command.help))
    params = get_params_from_function(inspect.unwrap(command.callback)) if command.callback else {}
    for parameter in command.params:
        if isinstance(parameter, typer.core.TyperArgument) and parameter.help is None:
            parameter.help = getattr(params[str(parameter.name)].default, "help", None)


@cache
def load(name: str) -> click.Command:
    """Return a command, or a group of them."""
    found = resolve_name(f"{COMMANDS[name][0]}:{name}")
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        found = alone
    command = typer.main.get_command(found)
    command.name = name
    _mend_help(command)
    return command


class _Commands(typer.core.TyperGroup):
    """Ends on every error with the same exit code: a shell's usual 1 and 2 mean a drift here."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            name: click.Command(name, short_help=words) for name, (_, words) in COMMANDS.items()
        }

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else load(name), rest

    def main(self, *arguments: Any, **options: Any) -> Any:
        options |= {"standalone_mode": False, "prog_name": "flwr-kld"}
        try:
            with exit_on_signals():
                code = super().main(*arguments, **options)
        except click.ClickException as error:
            error.show()
        except click.Abort:
            sys.exit(_INTERRUPTED)
        except SystemExit as end:  # of a signal; or 1, if standard output was closed
            sys.exit(ExitCode.ERROR if end.code == 1 else end.code)
        except NoBudget as error:
            complain(no_budget(str(error)))
        except LedgerUnavailable as error:
            complain(unavailable(str(error)))
        except _EXPECTED as error:
            complain(_message_of(error))
        except Exception:
            traceback.print_exc()
            complain("this is a bug in flwr-kld: please report it with the lines above")
        else:
            sys.exit(code)
        sys.exit(ExitCode.ERROR)


app = typer.Typer(
    cls=_Commands,
    help="Find drift in the data of a Flower federation's clients, under differential privacy.",
    no_args_is_help=True,
    rich_markup_mode=None,  # of this help alone: rich's would take longer than all the rest
)


def _show_version(asked: bool) -> None:
    """Print the version, and end."""
    if asked:
        from importlib.metadata import version

        results.print(f"flwr-kld {version('flwr-kld')}")
        raise typer.Exit


@app.callback()
def of_all(
    *,
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Take the options of no command."""


def main() -> None:
    """Entry point of ``flwr-kld``."""
    if isinstance(sys.stdout, TextIOWrapper):  # where a locale lacks ± or ε, a mark is enough
        sys.stdout.reconfigure(errors="replace")
    app()
