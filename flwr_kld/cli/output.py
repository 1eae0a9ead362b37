"""Where output goes: results to standard output, everything else to standard error."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from rich.console import Console

from flwr_kld.codec.json_text import json_text


class _Messages(Console):
    """A check goes on without readers: rich would end it, and standard output."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


results = Console(highlight=False)
messages = _Messages(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Write JSON to standard output, as it is: no colours, no wrapping."""
    print(json_text(value, indent=indent, ensure_ascii=False))


def say(words: str) -> None:
    """Tell the operator something that is not a result; markup in it stays as it is.

    A closed terminal is not an error: a check is worth more than its log.
    """
    with suppress(OSError):
        messages.print(words, markup=False)


def complain(words: str) -> None:
    """Say what went wrong."""
    with suppress(OSError):
        messages.print("[bold red]error:[/] ", end="")
        messages.print(words, markup=False)
