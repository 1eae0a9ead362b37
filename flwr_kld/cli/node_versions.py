"""Which versions SuperLink and SuperNodes have, by a run of an app that asks for nothing else.

Flower's command line reaches no node but by a run. The app brings its own question, so that nodes
answer whatever flwr-kld they have, or none; it lists what the operator's app lists, so that they
answer from the environment in which that app would run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import Field, Strict

from flwr_kld.cli.app_source import read_project
from flwr_kld.cli.doctor_checks import Finding, admits, app_dependencies, flower_needed
from flwr_kld.cli.flower_run import run_app
from flwr_kld.cli.templates import fill, quoted
from flwr_kld.codec.model import Model

_MARK = "flwr-kld-versions"
_LINE = re.compile(rf"{_MARK} (server|asked|\d{{1,20}}) (.*)")
_LONGEST = 400
"""Characters that are kept of what a node says."""
_SHOWN = 100
"""Of these, in an error's words."""
_NAMED = 5
"""Nodes that a line names."""
_WAIT = 30
"""Seconds until a node that is not busy has answered."""
_TIMEOUT = 180.0
"""Seconds for the run, which may install what the app lists."""

_Version = Annotated[str, Field(pattern=r"^[0-9A-Za-z.+!]{0,64}$")]


@dataclass(frozen=True)
class Installed(Model, what="the versions of a node"):
    """What is installed in one place."""

    flwr: _Version  # Versions; flwr-kld's is empty where it is missing
    flwr_kld: _Version
    # Version of the messages of a check; 0 where flwr-kld does not say
    messages: Annotated[int, Strict(), Field(ge=0, le=10**6)]

    def __str__(self) -> str:
        if not self.flwr_kld:
            return f"no flwr-kld, Flower {self.flwr}"
        return f"flwr-kld {self.flwr_kld}, messages {self.messages or '?'}, Flower {self.flwr}"


@dataclass
class _Heard:
    """What the run's log says."""

    server: Installed | None = None  # Where ServerApps run
    # On each node that answered in the one form that there is
    nodes: dict[int, Installed] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)  # What others said
    asked: list[int] | None = None  # All nodes; None until the run is over

    def hear(self, line: str) -> None:
        """Read a line; a node's is not believed to have any form."""
        found = _LINE.search(line)
        if found is None:
            return
        who, text = found.groups()
        if who == "asked":
            self.asked = [int(node) for node in json.loads(text)]
            return
        try:
            said = Installed.from_json(text)
        except ValueError:
            if who != "server":
                self.wrong[int(who)] = text[:_SHOWN]
            return
        if who == "server":
            self.server = said
        else:
            self.nodes[int(who)] = said


def the_nodes(app: Path, connection: str) -> Iterator[Finding]:
    """Ask SuperLink and SuperNodes for their versions, and hold them against one another."""
    heard = _Heard()
    with TemporaryDirectory(prefix="flwr-kld-") as folder:
        _write(Path(folder), read_project(app))
        try:
            run = run_app(Path(folder), connection, (), timeout=_TIMEOUT, heard=heard.hear)
        except RuntimeError as error:
            yield Finding("nodes", "failed", str(error), "pip install flwr")
            return
    if heard.server is None or heard.asked is None:
        words = run.exception or run.last_words or "its log says nothing"
        yield Finding(
            "nodes",
            "failed",
            f"the run that asks them for their versions failed: {words}",
            f"flwr log RUN {connection} --show, with a RUN that flwr list {connection} shows; "
            f"a check of {app} would fail likewise",
        )
        return
    yield from _server(heard.server)
    yield from _compared(heard, heard.asked, heard.server, connection)


def _write(folder: Path, project: Mapping[str, Any]) -> None:
    """Write the app, with the dependencies of another and the places where uv finds them."""
    listed, uv = app_dependencies(project), project.get("tool", {}).get("uv", {})
    (folder / "asked").mkdir()
    (folder / "asked" / "__init__.py").touch()
    (folder / "asked" / "versions.py").write_text(
        fill("versions.py.txt", mark=_MARK, longest=_LONGEST, wait=_WAIT), encoding="utf-8"
    )
    (folder / "pyproject.toml").write_text(
        fill("versions.toml.txt", dependencies=_toml(listed), uv=_toml(uv)), encoding="utf-8"
    )


def _toml(value: object) -> str:
    """Write a value inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)


def _server(server: Installed) -> Iterator[Finding]:
    own = version("flwr-kld")
    if not server.flwr_kld:
        install = f"pip install flwr-kld=={own}, where ServerApps run"
        yield Finding("server", "failed", str(server), install)
    elif server.flwr_kld != own:
        words = f"{server}; this command has flwr-kld {own}, and reads what the server writes"
        yield Finding("server", "warning", words, "install the same flwr-kld beside this command")
    else:
        yield Finding("server", "ok", str(server))


def _compared(
    heard: _Heard, asked: Sequence[int], server: Installed, connection: str
) -> Iterator[Finding]:
    if not asked:
        start = f"start one: flower-supernode …; flwr supernode list {connection}"
        yield Finding("nodes", "failed", "none is connected", start)
    alike: dict[Installed, list[int]] = {}
    for node, installed in heard.nodes.items():
        alike.setdefault(installed, []).append(node)
    for installed, nodes in alike.items():
        words = f"{_named(nodes, asked)}: {installed}"
        if server.messages and installed.messages != server.messages:
            words += f"; the server's messages are {server.messages}: checks would leave them out"
            install = f"install flwr-kld {server.flwr_kld} on them, or theirs on all others"
            yield Finding("nodes", "failed", words, install)
        elif not admits(flower_needed(), installed.flwr):
            install = f"pip install 'flwr{flower_needed()}' on them"
            yield Finding("nodes", "failed", words, install)
        elif installed.flwr_kld != server.flwr_kld:
            words += (
                f"; the server has {server.flwr_kld}: the same messages, but secure sums and seals "
                "have versions of their own"
            )
            yield Finding("nodes", "warning", words, "install the same flwr-kld on all")
        else:
            yield Finding("nodes", "ok", words)
    for node, said in heard.wrong.items():
        look = f"look at this SuperNode's log; flwr supernode list {connection} names it"
        yield Finding("nodes", "failed", f"node {node} cannot answer: {said}", look)
    if silent := [one for one in asked if one not in heard.nodes and one not in heard.wrong]:
        words = f"{_named(silent, asked)} did not answer within {_WAIT} s"
        wait = "they may be busy with another run: look at their logs, and run doctor again"
        yield Finding("nodes", "warning", words, wait)


def _named(nodes: Sequence[int], asked: Sequence[int]) -> str:
    """Name some of the nodes, if they are not all."""
    if len(nodes) == len(asked):
        return f"all {len(asked)}"
    more = ", …" if len(nodes) > _NAMED else ""
    return f"{len(nodes)} of {len(asked)} ({', '.join(map(str, nodes[:_NAMED]))}{more})"
