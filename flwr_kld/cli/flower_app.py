"""Reads a Flower app: its source, its settings, and the monitor that it makes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from flwr_kld.cli.common import pairs_in
from flwr_kld.cli.new_app import LEDGER, SAMPLE, SIMULATED
from flwr_kld.cli.schedule import Schedule, most_in_window
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger.budget import Budget
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.pace import Pace

BY_HAND = "; add the lines of docs/quickstart/table.md by hand"
"""What is left where an app is not as `flwr-kld init --into` knows it."""


@dataclass(frozen=True)
class Component:
    """A ServerApp or ClientApp, and the code of its file."""

    file: Path  # Where it is
    name: str  # Of the variable that holds it
    text: str  # With newlines of Unix
    tree: ast.Module  # What it says
    crlf: bool  # Whether the file's lines end as on Windows

    @classmethod
    def of(cls, file: Path, name: str) -> Component:
        """Read a file."""
        try:
            raw = file.read_bytes().decode("utf-8-sig")
            text = raw.replace("\r\n", "\n")
            return cls(file, name, text, ast.parse(text), "\r\n" in raw)
        except FileNotFoundError:
            raise ValueError(f"pyproject.toml names {file}, which does not exist") from None
        except (SyntaxError, UnicodeDecodeError):
            raise ValueError(f"{file} is not readable as Python: correct it first") from None

    @property
    def names(self) -> set[str]:
        """Every name that the code uses, for whatever."""
        found = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        found |= {node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
        return found


def require_app(app: Path) -> None:
    """Refuse a folder without a Flower app."""
    if not (app / "pyproject.toml").is_file():
        raise ValueError(
            f"{app} is not a Flower app: it has no pyproject.toml; give its folder, or write one: "
            "flwr-kld init SAMPLE --out NEW"
        )


def read_project(app: Path) -> dict[str, Any]:
    """Read an app's pyproject.toml."""
    require_app(app)
    file = app / "pyproject.toml"
    try:
        project = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is not a valid TOML file: {error}") from None
    flower = project.get("tool", {}).get("flwr", {}).get("app")
    if not isinstance(flower, dict) or not isinstance(flower.get("components"), dict):
        raise ValueError(
            f"{file} has no [tool.flwr.app.components]: it is not a Flower app; flwr-kld init "
            "SAMPLE --out NEW writes one"
        )
    return project


def checks_beside_training(app: Path) -> bool:
    """Whether an app's checks are rounds of its training, so that to train it is to check."""
    try:
        project = read_project(app)
        server = component(app, project, "serverapp")
    except ValueError:
        return False
    return "WithDriftChecks" in server.names and CHECK_IN_RUN_CONFIG not in run_config(project)


def run_config(project: dict[str, Any]) -> dict[str, Any]:
    """Return the run config that an app declares; names in dotted form, as Flower has them."""
    config = project["tool"]["flwr"]["app"].get("config", {})
    return dict(_flat(config, "")) if isinstance(config, dict) else {}


def require_declared(app: Path, name: str, page: str) -> None:
    """Refuse an app that does not declare a name, as Flower would: its ServerApp reads none."""
    if name not in run_config(read_project(app)):
        raise ValueError(
            f"{app} does not do this: a ServerApp has to read {name} from its run config, and "
            f"pyproject.toml to declare {name} = '' under [tool.flwr.app.config]; the docs' page "
            f"{page!r} shows both"
        )


def _flat(config: dict[str, Any], before: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in config.items():
        own = f"{before}{name}"
        found += _flat(value, f"{own}.") if isinstance(value, dict) else [(own, value)]
    return found


def component(app: Path, project: dict[str, Any], kind: str) -> Component:
    """Return the app's ``serverapp`` or ``clientapp``."""
    place = project["tool"]["flwr"]["app"]["components"].get(kind)
    module, colon, name = str(place).partition(":")
    parts = module.split(".")
    if not colon or not all(part.isidentifier() for part in (*parts, name)):
        raise ValueError(
            f"{app / 'pyproject.toml'} has no {kind} = 'module:name' under "
            f"[tool.flwr.app.components]{BY_HAND}"
        )
    return Component.of(app.joinpath(*parts).with_suffix(".py"), name)


CHECK_IN_RUN_CONFIG = "drift-check"
"""The run config's name for the idempotency key of a check; the app must declare it."""
STATISTICS_IN_RUN_CONFIG = "drift-statistics"
"""The same for a reference that the app's clients make; an app that makes none has no such name."""
DISCOVERY_IN_RUN_CONFIG, COLUMN_IN_RUN_CONFIG = "drift-discovery", "drift-column"
"""The same for the question which labels a column does not list, and of which column."""
CRON = "deploy/kld.cron"
"""Schedule in the apps that ``init`` writes."""


def schedule_of(app: Path) -> str | None:
    """Return the cron expression of an app's schedule; None if there is none."""
    file = app / CRON
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    found = re.search(r"--schedule '([^']+)'", text)
    return found and found[1]


_TRUSTS = ("Trusted", "TrustedAggregator", "TwoAggregators", "Distributed")


@dataclass(frozen=True)
class Facts:
    """What is known; None or empty where the app decides it when it runs."""

    ledger: str | None  # URL
    simulated: bool  # Whether the run config names a public sample
    epsilon: float | None = None  # Of a check
    cohort: int | None = None  # Clients that a check asks, in rotation
    nights: int | None = None  # Checks that are one standing session
    threshold: float | None = None  # Nats that are tolerated where the table does not say

    def pace(self, budget: Budget, slots: Schedule, clients: int | None) -> Pace | None:
        """Hold a schedule against a budget; None where epsilon or the rotation is not known."""
        if self.epsilon is None or (self.cohort is not None and clients is None):
            return None
        apart = self.nights or 1
        if self.cohort is not None and clients is not None:
            apart = max(clients // self.cohort, 1)
        checks = most_in_window(slots, budget.window_days)
        cost = replace(Cost.claimed("check", Guarantee(self.epsilon)), protects=budget.protects)
        return Pace(checks, cost, apart, budget)


def facts_of(app: Path, overrides: Sequence[str] = ()) -> Facts:
    """Read an app; what cannot be read is not known."""
    given = {
        name: value.strip("'\"")
        for text in overrides
        if not text.endswith(".toml")  # Flower takes a file, too
        for name, value in pairs_in(text)
    }
    try:
        project = read_project(app)
        config = run_config(project) | given
        tree = component(app, project, "serverapp").tree
    except ValueError:
        return Facts(None, simulated=False)
    named = {str(url) for url in [config.get(LEDGER)] if url} or set(_literals(tree, "ledger"))
    epsilons = {float(value) for _, value in _numbers(tree, _TRUSTS, "epsilon")}
    sizes = {int(size) for _, size in _numbers(tree, ["RotatingCohort"], "size")}
    nights = {int(number) for _, number in _numbers(tree, ["Standing"], "nights")}
    thresholds = {nats for _, nats in _numbers(tree, ["KLDrift"], "threshold")}
    return Facts(
        named.pop() if len(named) == 1 else None,
        simulated=bool(config.get(SAMPLE)),
        epsilon=epsilons.pop() if len(epsilons) == 1 else None,
        cohort=sizes.pop() if len(sizes) == 1 else None,
        nights=nights.pop() if len(nights) == 1 else None,
        threshold=thresholds.pop() if len(thresholds) == 1 else None,
    )


def require_same(facts: Facts, ledger: str, population: str) -> None:
    """Refuse to run an app that would spend where nobody looks."""
    if facts.ledger is not None and not same_database(facts.ledger, ledger):
        raise ValueError(
            f"the app writes the ledger {shown(facts.ledger)}, and this command reads "
            f"{shown(ledger)}: give --ledger {shown(facts.ledger)}; nothing was asked"
        )
    if facts.simulated and population != SIMULATED:
        raise ValueError(
            f"the app's run config names a public sample for simulated nodes: give --run-config "
            f"'{SAMPLE}=\"\"' for a deployment, or --population {SIMULATED}; nothing was asked"
        )


def same_database(of_app: str, own: str) -> bool:
    """Whether an app may write the database that a command reads, as far as can be known here."""
    # A SuperLink in a container, say, has other paths and hosts: only another file on this machine,
    # or another name of a PostgreSQL database, is surely not the same.
    try:
        first, second = sa.make_url(of_app), sa.make_url(own)
    except ArgumentError:
        return True
    if first.get_backend_name() != second.get_backend_name():
        return False
    if first.get_backend_name() != "sqlite":
        return first.database == second.database
    there, here = Path(first.database or ""), Path(second.database or "")
    elsewhere = not there.is_absolute() or not there.is_file()  # from the SuperLink's own folder
    return elsewhere or there.resolve() == here.resolve()


def shown(url: str) -> str:
    """Write a URL without its password."""
    try:
        return sa.make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return url


def _literals(tree: ast.Module, keyword: str) -> Iterator[str]:
    """Yield texts that calls are given under a name, by themselves or as a module's constant."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == keyword:
            value: Any = None
            if isinstance(node.value, ast.Constant):
                value = node.value.value
            elif isinstance(node.value, ast.Name):
                value = constants.get(node.value.id)
            if isinstance(value, str):
                yield value


def _of_checks(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a tree, but for what a description is given."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
    if called != "Statistics":
        yield node
        for part in ast.iter_child_nodes(node):
            yield from _of_checks(part)


def _numbers(tree: ast.Module, names: Sequence[str], keyword: str) -> Iterator[tuple[str, float]]:
    """Yield the number that each call of one of these is given."""
    for node in _of_checks(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            given = [word.value for word in node.keywords if word.arg == keyword] + node.args[:1]
            value = given[0].value if given and isinstance(given[0], ast.Constant) else None
            if isinstance(value, int | float) and value > 0:
                yield node.func.id, value
