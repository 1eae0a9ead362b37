"""What an app says of its checks before it runs: its ledger, epsilon and cohort."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from flwr_kld.accounting.budget import Budget
from flwr_kld.accounting.pace import Pace, Turns
from flwr_kld.cli.app_source import component, read_project, run_config
from flwr_kld.cli.new_app import LEDGER, SAMPLE, SIMULATED
from flwr_kld.operate.schedule import Schedule, most_in_window

_PAIR = re.compile(r"(\S+?)=('[^']*'|\"[^\"]*\"|\S+)")
_TRUSTS = ("Trusted", "TrustedAggregator", "TwoAggregators", "Distributed")


@dataclass(frozen=True)
class Facts:
    """What is known; None or empty where the app decides it when it runs."""

    ledger: str | None  # URL
    simulated: bool  # Whether the run config names a public sample
    epsilon: float | None = None  # Of a check
    turns: Turns | None = None  # Whom a check asks

    def pace(self, budget: Budget, slots: Schedule, clients: int | None) -> Pace | None:
        """Hold a schedule against a budget; None where epsilon or the rotation is not known."""
        rotates = self.turns is not None and self.turns.clients is not None
        if self.epsilon is None or (rotates and clients is None):
            return None
        length = 1 if self.turns is None else self.turns.length(clients or 1)
        checks = most_in_window(slots, budget.window_days)
        return Pace(checks, self.epsilon, length, budget)


def facts_of(app: Path, overrides: Sequence[str] = ()) -> Facts:
    """Read an app; what cannot be read is not known."""
    try:
        project = read_project(app)
        config = {**run_config(project), **dict(_overridden(overrides))}
        tree = component(app, project, "serverapp").source.tree
    except ValueError:
        return Facts(None, simulated=False)
    named = {str(url) for url in [config.get(LEDGER)] if url} or set(_literals(tree, "ledger"))
    epsilons = {float(value) for value in _epsilons(tree)}
    turns = set(_turns(tree))
    return Facts(
        named.pop() if len(named) == 1 else None,
        simulated=bool(config.get(SAMPLE)),
        epsilon=epsilons.pop() if len(epsilons) == 1 else None,
        turns=turns.pop() if len(turns) == 1 else None,
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
    """Whether an app may write the database that a command reads, as far as can be told here.

    A SuperLink in a container, say, has other paths and hosts: only another file on this machine,
    or another name of a PostgreSQL database, is surely not the same.
    """
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


def _overridden(overrides: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in overrides:
        for name, value in _PAIR.findall(text):
            yield name, value.strip("'\"")


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


def _numbers(tree: ast.Module, names: Sequence[str], keyword: str) -> Iterator[tuple[str, float]]:
    """Yield the number that each call of one of these is given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            given = [word.value for word in node.keywords if word.arg == keyword] + node.args[:1]
            value = given[0].value if given and isinstance(given[0], ast.Constant) else None
            if isinstance(value, int | float) and value > 0:
                yield node.func.id, value


def _epsilons(tree: ast.Module) -> Iterator[float]:
    for _, epsilon in _numbers(tree, _TRUSTS, "epsilon"):
        yield epsilon


def _turns(tree: ast.Module) -> Iterator[Turns]:
    for _, size in _numbers(tree, ["RotatingCohort"], "size"):
        yield Turns(clients=int(size))
    for _, buckets in _numbers(tree, ["RotatingRecords"], "buckets"):
        yield Turns(buckets=int(buckets))
