"""Write the commands' own help into the page about them, when the site is built."""

import re
from collections.abc import Iterator
from typing import Any

from flwr_kld.cli.app import COMMANDS, load

PLACE = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by a section for each command; MkDocs calls this for every page."""
    return markdown.replace(PLACE, "\n".join(sections())) if PLACE in markdown else markdown


def sections() -> Iterator[str]:
    """Text about every command, groups' commands under their full name."""
    every = (found for name in COMMANDS for found in commands(load(name), f"flwr-kld {name}"))
    for name, command in every:
        yield f"## `{name}`\n"
        yield re.sub(r"[\b\f]", "", command.help or "") + "\n"
        shown = [one for one in command.params if one.name != "help"]
        if shown:
            yield "| | what it is | default |\n|---|---|---|"
            yield from map(row, shown)
        yield ""


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with what is typed to run it."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for inner, own in command.commands.items():
        yield from commands(own, f"{name} {inner}")


def row(parameter: Any) -> str:
    """One option or argument as a row."""
    argument = parameter.param_type_name == "argument"
    spelled = [parameter.name.upper()] if argument else parameter.opts
    told = (getattr(parameter, "help", None) or "").replace("|", "\\|")
    if parameter.multiple and "repeat" not in told:
        told += " May be repeated."
    return f"| {', '.join(f'`{name}`' for name in spelled)} | {told} | {default(parameter)} |"


def default(parameter: Any) -> str:
    """Return what holds if the option is not given."""
    if parameter.required:
        return "*required*"
    value = parameter.default
    if callable(value) or value is None or value is False or value in ((), ""):
        return ""
    return f"`{value}`"
