"""What ``doctor`` looks at, one thing a function."""

from __future__ import annotations

import os
import re
import socket
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from flwr_kld.accounting.amounts import NANO
from flwr_kld.accounting.errors import LedgerError, NoBudget
from flwr_kld.cli.app_facts import Facts, same_database, shown
from flwr_kld.cli.app_source import component, read_project, run_config
from flwr_kld.cli.flower_run import CHECK_IN_RUN_CONFIG
from flwr_kld.cli.ledgers import existing_ledger, unavailable
from flwr_kld.cli.new_app import SAMPLE, SIMULATED
from flwr_kld.cli.node_keys import read_roster
from flwr_kld.guard import node_identity
from flwr_kld.guard.limits import read_limits
from flwr_kld.messages.terms import VERSION
from flwr_kld.operate.schedule import Schedule
from flwr_kld.reference import Reference

_PYTHON = (3, 11)
_WAIT = 3.0
"""Seconds until a SuperLink must have taken a connection."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str  # The thing
    state: Literal["ok", "warning", "failed"]  # Whether a check can go on with it
    words: str  # How it is
    next: str | None = None  # What to do where it is not well


def _ok(what: str, words: str) -> Finding:
    return Finding(what, "ok", words)


def _failed(what: str, words: object, then: str) -> Finding:
    return Finding(what, "failed", str(words), then)


def versions() -> Iterator[Finding]:
    """Look at Python, Flower and what flwr-kld speaks."""
    python = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _PYTHON:
        yield _failed("Python", python, "install Python 3.11 or newer")
    spec = flower_needed()
    install = f"pip install 'flwr{spec}'"
    try:
        flower = version("flwr")
    except PackageNotFoundError:
        yield _failed("Flower", "is not installed", install)
        return
    if not admits(spec, flower):
        yield _failed("Flower", f"{flower} is installed, and flwr-kld needs {spec}", install)
        return
    yield _ok(
        "versions",
        f"flwr-kld {version('flwr-kld')}, messages {VERSION}, Flower {flower}, Python {python}: "
        "SuperLink and SuperNodes need the same flwr-kld",
    )


def flower_needed() -> str:
    """Return the bounds of Flower's version."""
    needed = next((r for r in requires("flwr-kld") or () if r.startswith("flwr")), "flwr")
    return needed.removeprefix("flwr").partition(";")[0].strip()


def admits(spec: str, found: str) -> bool:
    """Whether a version fits bounds such as ``>=1.41,<1.43``."""

    def parts(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    for bound in spec.split(","):
        number = parts(bound)
        if bound.startswith(">=") and parts(found) < number:
            return False
        if bound.startswith("<") and parts(found)[: len(number)] >= number:
            return False
    return True


def the_app(app: Path) -> Iterator[Finding]:
    """Look at the app's files and run config."""
    try:
        project = read_project(app)
        for kind in ("serverapp", "clientapp"):
            component(app, project, kind).source  # noqa: B018
    except ValueError as error:
        yield _failed("app", error, f"flwr-kld init SAMPLE --out NEW, or correct {app}")
        return
    config = run_config(project)
    if CHECK_IN_RUN_CONFIG not in config:
        yield _failed(
            "app",
            f"its run config does not declare {CHECK_IN_RUN_CONFIG}",
            f"add {CHECK_IN_RUN_CONFIG} = '' under [tool.flwr.app.config] in "
            f"{app / 'pyproject.toml'}",
        )
        return
    wheels = [one for one in app_dependencies(project) if one.startswith("flwr-kld")]
    for wheel in wheels:
        place = wheel.partition("@")[2].strip()
        file = Path(unquote(urlsplit(place).path))
        if place.startswith("file://") and not file.is_file():
            get = f"pip download --no-deps flwr-kld -d {file.parent}"
            correct = f"correct dependencies in {app / 'pyproject.toml'}"
            yield _failed("app", f"there is no wheel {place}", f"{get}, or {correct}")
            return
    how = wheels[0] if wheels else "is installed on SuperLink and SuperNodes"
    yield _ok("app", f"{app}; flwr-kld: {how}")
    if config.get(SAMPLE) and not Path(str(config[SAMPLE])).is_file():
        yield Finding("sample", "warning", f"there is no file {config[SAMPLE]}",
                      f"put it there, or change {SAMPLE} in {app / 'pyproject.toml'}")  # fmt: skip


def app_dependencies(project: Mapping[str, Any]) -> list[str]:
    """Return what an app's pyproject.toml lists."""
    own = project.get("project")
    listed = own.get("dependencies") if isinstance(own, dict) else None
    return [str(one) for one in listed] if isinstance(listed, list) else []


def the_connection(name: str | None) -> Iterator[Finding]:
    """Look for a SuperLink connection, and whether somebody listens there."""
    home = Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr")
    file = home / "config.toml"
    add = f"add [superlink.{name or 'NAME'}] with its address to {file}"
    try:
        links = tomllib.loads(file.read_text(encoding="utf-8")).get("superlink", {})
    except FileNotFoundError:
        if name is None:
            yield _ok("connection", "Flower's local simulation")
        else:
            yield _failed("connection", f"there is no {file}", add)
        return
    except (OSError, ValueError) as error:
        yield _failed("connection", f"{file} cannot be read ({error})", f"correct {file}")
        return
    name = name or links.get("default")
    own = links.get(name) if isinstance(name, str) else None
    if not isinstance(own, dict):
        known = ", ".join(k for k, v in links.items() if isinstance(v, dict)) or "none"
        yield _failed("connection", f"{file} has no connection {name!r}; it has: {known}", add)
        return
    address = str(own.get("address", ":local:"))
    host, colon, port = address.rpartition(":")
    if address.startswith(":") or not colon or not port.isdecimal():
        yield _ok("connection", f"{name}: {address}")
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _WAIT).close()
    except OSError as error:
        why = error.strerror or str(error)
        start = "start it: flower-superlink …, or correct its address"
        yield _failed("connection", f"{name}: nobody answers at {address} ({why})", start)
        return
    yield _ok("connection", f"{name}: {address} answers")


def the_reference(app: Path, guard: Path | None, facts: Facts) -> Iterator[Finding]:
    """Look at the references that the app ships, and at what a guard file lets in."""
    found = {}
    for file in sorted(app.glob("*/reference.json")):
        try:
            found[file] = Reference.load(file)
        except ValueError as error:
            again = "flwr-kld init SAMPLE --out NEW writes another"
            yield _failed("reference", error, again)
            return
        yield _ok("reference", f"{file}: {found[file].fingerprint[:12]}")
    draft = app / "deploy" / "guard.toml"
    file = guard or draft
    if guard is None and not draft.is_file():
        return
    try:
        limits = read_limits(file)
    except ValueError as error:
        yield _failed("guard", f"{file}: {error}", f"correct {file}: see docs/guard.md")
        return
    for reference in found.values():
        if limits.domains is not None and reference.domain.fingerprint not in limits.domains:
            allow = f'add "{reference.domain.fingerprint}" to allow.domains in {file}'
            yield _failed("guard", f"{file} refuses the app's domain", allow)
            return
        if limits.references is not None and reference.fingerprint not in limits.references:
            allow = f'add "{reference.fingerprint}" to allow.references in {file}'
            yield _failed("guard", f"{file} refuses the app's reference", allow)
            return
    if facts.epsilon is not None and facts.epsilon * 10**NANO > limits.epsilon:
        raise_it = f"raise check.max_epsilon in {file} to {facts.epsilon:g}"
        yield _failed("guard", f"{file} refuses epsilon {facts.epsilon:g}", raise_it)
        return
    yield _ok("guard", f"{file}: allows these checks")


def the_keys(key: Path | None, roster: Path | None) -> Iterator[Finding]:
    """Look at a node's key and the roster, where secure sums need them."""
    if key is None and roster is None:
        return
    make = f"flwr-kld keys make {key or 'FILE'}, on the node"
    if key is not None and not key.is_file():
        yield _failed("key", f"there is no file {key}", make)
        return
    try:
        public = None if key is None else node_identity(key).public
    except (OSError, ValueError) as error:
        yield _failed("key", error, f"chmod 600 {key}, or {make}")
        return
    write = f"flwr-kld keys roster {roster or 'roster.json'} NAME=PUBLIC …, with every node"
    if roster is None:
        yield _failed("roster", "a node's key needs one", write)
        return
    try:
        listed = read_roster(roster)
    except ValueError as error:
        yield _failed("roster", error, write)
        return
    if public is not None and public not in listed.keys:
        yield _failed("roster", f"{roster} does not list the key {public.hex()}", write)
        return
    name = "" if public is None else f"; this node is {listed.names[listed.keys.index(public)]!r}"
    yield _ok("roster", f"{roster}: {len(listed)} nodes{name}")


def the_ledger(facts: Facts, url: str | None, population: str, app: Path) -> Iterator[Finding]:
    """Look whether the ledger can be written, is the app's own, and has a budget."""
    if url is None:
        yield _failed("ledger", "none is named", "give --ledger, the one that the app writes")
        return
    give = f"--ledger {shown(url)} --population {population}"
    if facts.ledger is not None and not same_database(facts.ledger, url):
        words = f"the app writes {shown(facts.ledger)}, not {shown(url)}"
        yield _failed("ledger", words, f"give --ledger {shown(facts.ledger)}")
        return
    try:
        ledger = existing_ledger(url)
        spent = ledger.spent(population)
        newest = next(ledger.newest_first(population), None)
    except NoBudget as error:
        words = str(error).partition(": set one")[0]
        yield _failed("ledger", words, f"flwr-kld budget {give} --set EPSILON")
        return
    except ImportError as error:
        yield _failed("ledger", error, "pip install 'flwr-kld[postgres]'")
        return
    except (LedgerError, ValueError, OSError) as error:
        words, _, mend = unavailable(str(error)).partition("; next: ")
        yield _failed("ledger", words, mend or f"flwr-kld budget {give} --set EPSILON makes one")
        return
    yield _ok("ledger", f"{shown(url)}: {spent.left:.3g} left of {spent.budget}")
    if newest is not None and newest.started > datetime.now(UTC):
        behind = newest.started.isoformat(timespec="seconds")
        words = f"this machine's clock is behind the ledger's last entry, made at {behind}"
        yield _failed("clock", words, "set it: timedatectl set-ntp true")
    if facts.simulated and population != SIMULATED:
        yield Finding(
            "sample",
            "warning",
            f"with its present run config, {app} simulates nodes on a public sample",
            f"for a deployment, give check --run-config '{SAMPLE}=\"\"'",
        )


def the_pace(
    facts: Facts, url: str | None, population: str, slots: Schedule, clients: int | None
) -> Iterator[Finding]:
    """Hold checks in a window × epsilon against the budget."""
    if url is None or facts.epsilon is None:
        return
    try:
        budget = existing_ledger(url).budget(population)
    except (LedgerError, ValueError, OSError, ImportError):
        return  # said already
    pace = facts.pace(budget, slots, clients)
    if pace is None:
        yield Finding(
            "budget",
            "warning",
            "how often a rotation comes to the same client depends on how many there are",
            "give --clients",
        )
        return
    if pace.fits:
        yield _ok("budget", str(pace))
    else:
        yield _failed("budget", str(pace), pace.advice)
