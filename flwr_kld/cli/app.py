"""The commands together, and what happens to errors."""

from __future__ import annotations

import sys
import traceback
from typing import Any

import click
import typer
import typer.core

from flwr_kld.accounting.errors import NoBudget
from flwr_kld.cli.budget import budget
from flwr_kld.cli.check import check
from flwr_kld.cli.demo import demo
from flwr_kld.cli.exit_codes import ExitCode
from flwr_kld.cli.history import history
from flwr_kld.cli.ledgers import no_budget
from flwr_kld.cli.output import complain
from flwr_kld.cli.plan import plan
from flwr_kld.cli.reference import reference
from flwr_kld.cli.report import report
from flwr_kld.cli.signals import exit_on_signals
from flwr_kld.cli.simulate import simulate
from flwr_kld.cli.watch import watch

_INTERRUPTED = 130
_EXPECTED = (ValueError, OSError, RuntimeError, ImportError)
"""What a user can cause and mend; their words say how."""


class _Commands(typer.core.TyperGroup):
    """Ends on every error with the same exit code: a shell's usual 1 and 2 mean a drift here."""

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
        except _EXPECTED as error:
            complain(str(error) or type(error).__name__)
        except Exception:
            traceback.print_exc()
            complain("this is a mistake in flwr-kld: please report it with the lines above")
        else:
            sys.exit(code)
        sys.exit(ExitCode.ERROR)


app = typer.Typer(
    cls=_Commands,
    help="Private drift monitoring for Flower federations: KL(reference || clients) on a budget.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)
for command in (demo, simulate, plan, check, watch, history, report, budget):
    app.command()(command)
app.add_typer(reference, name="reference")


def main() -> None:
    """Entry point of ``flwr-kld``."""
    app()
