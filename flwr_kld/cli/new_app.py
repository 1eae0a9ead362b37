"""Files of a new Flower app that checks a table."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from importlib.metadata import packages_distributions
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any

from flwr_kld.ask.partition import plan_to_pin
from flwr_kld.ask.period import Period
from flwr_kld.cli.schedule import SESSION_DAYS
from flwr_kld.common.json_text import json_text
from flwr_kld.kernel import Guarantee
from flwr_kld.ledger.budget import Budget
from flwr_kld.ledger.cost import Cost
from flwr_kld.ledger.pace import FEW, Pace, rounded
from flwr_kld.reference import Reference

_FOLDER = Path(__file__).parent / "app_templates"


def fill(template: str, /, **values: Any) -> str:
    """Return a template with its values put in."""
    return Template((_FOLDER / template).read_text(encoding="utf-8")).substitute(values)


def quoted(text: str) -> str:
    """Write a string for TOML; no path or URL should hold control characters or invalid Unicode."""
    if not text.isprintable():
        raise ValueError(f"{text!r} holds characters that cannot be printed: choose another name")
    return json_text(text, ensure_ascii=False)


SIMULATED = "simulated"
"""Population whose budget simulated checks are charged to."""

LEDGER, SAMPLE, BOOK = "drift-ledger", "drift-sample", "drift-book"
"""Names in the run config of the apps that ``init`` writes."""

_WIDTH = 100

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")

_MADE = 'drift-statistics = ""  # set by flwr-kld describe\n'

_LATER = 'plans = "any"  # pin the real one, once clients have made the reference'

_TRUSTED = 'trust = ["trusted"]  # the server sees exact counts, and adds the noise'
_AGGREGATED = 'trust = ["two-aggregators"]  # no party sees exact counts'

STANDING_DELTA = 1e-06
"""Of a standing session."""


@dataclass(frozen=True)
class Proposal:
    """What checks cost, and whom they ask."""

    clients: int  # Of the deployment
    checks: int  # Most that any window of the budget has
    # Of the deployment's clients; a check takes all that is left for it, of each person once
    budget: Budget
    # Whether the reference is made up: clients make the real one, for one half of the budget
    made_up: bool = False
    # That of the sample's rows, where checks are of the rows since the last one
    period: Period | None = None
    # Checks a year, if rows have ids: few clients are asked for all their rows in each of them, as
    # one session
    nights: int = 0
    # Public keys, hexadecimal, of the two aggregators, where nobody may see a client's data
    aggregators: tuple[str, ...] = ()

    @property
    def is_standing(self) -> bool:
        """Whether checks are nights of a standing session."""
        return self.nights > 1 and self.period is None and self.checks > 1 and self.size is None

    @property
    def share(self) -> float:
        """Epsilon for all checks in a window, and for clients' reference."""
        return self.budget.epsilon / 2 if self.made_up else self.budget.epsilon

    @property
    def epsilon(self) -> float:
        """Of a check."""
        if self.checks == 1 or self.is_standing or self.size is not None:
            return self.share
        return rounded(self.share / self.checks, 2, ROUND_FLOOR)

    @property
    def size(self) -> int | None:
        """Clients in a cohort, if so many checks in a row can ask different ones."""
        if self.aggregators:  # which check no clients that are drawn
            return None
        size = self.clients // self.checks
        return size if self.checks > 1 and size >= FEW else None

    @property
    def pace(self) -> Pace:
        """The schedule, held against the budget."""
        apart = self.checks if self.is_standing else self.clients // (self.size or self.clients)
        cost = Cost.claimed("check", Guarantee(self.epsilon))
        return Pace(self.checks, cost, apart, self.budget)

    @property
    def cohort(self) -> str:
        """The cohort rule in Python."""
        return "UniformCohort()" if self.size is None else f"RotatingCohort({self.size})"

    @property
    def least(self) -> int:
        """Clients with which a check still goes on."""
        return _most_of(self.size or self.clients)

    @property
    def nodes(self) -> int:
        """Nodes that a check waits for: a rotation of clients needs a whole cohort."""
        return self.size or _most_of(self.clients) + len(self.aggregators)

    def names(self) -> str:
        """Names that the monitor's code imports."""
        cohorts = {"UniformCohort", self.cohort.partition("(")[0]}
        made = {"Statistics"} if self.made_up else set()
        periods = set() if self.period is None else {"Period", "SinceLastCheck"}
        standing = {"Standing"} if self.is_standing else set()
        models = {"Trusted", "TwoAggregators"} if self.aggregators else {"Trusted"}
        return ", ".join(sorted({"KLDrift"} | models | cohorts | made | periods | standing))

    def _trust(self, epsilon: float, more: str = "") -> str:
        """Return the code of a trust model; simulated nodes have no keys."""
        trusted = f"Trusted(epsilon={epsilon}{more})"
        if not self.aggregators:
            return trusted
        return (
            f"{trusted}\n    if simulated  # nodes that have no keys\n"
            f"    else TwoAggregators(epsilon={epsilon}{more}, aggregators=AGGREGATORS)"
        )

    def monitor(self, config: str = "config") -> str:
        """Return the code of a monitor; `config` names the run config in it."""
        either = f"UniformCohort() if simulated else {self.cohort}"
        sampled = period = ""
        if self.period is not None:
            column, *ends = map(quoted, (self.period.column, self.period.start, self.period.end))
            sampled = f"sampled = Period({', '.join((column, *ends))})  # of the sample's rows\n"
            period = f"    period=sampled if simulated else SinceLastCheck({column}),\n"
        trust = self._trust(self.epsilon)
        if self.is_standing:
            each_night = indent(self._trust(self.epsilon, f", delta={STANDING_DELTA}"), "    ")
            trust = (
                f"Standing(\n    {each_night},\n"
                f"        nights={self.nights},\n"
                f"        days={SESSION_DAYS},  # from its first check to its end\n"
                "        moves=4,  # a row comes, may change once, and goes\n"
                f"        book=str({config}[{quoted(BOOK)}]),\n    )"
            )
        code = fill(
            "monitor",
            config=config,
            trust=trust,
            cohort="UniformCohort()" if self.cohort == "UniformCohort()" else either,
            sampled=sampled,
            period=period,
        )
        trust = indent(self._trust(self.share), "    ").lstrip()
        made = fill("reference", config=config, trust=trust) if self.made_up else ""
        return code + made

    def guard(self, reference: Reference) -> str:
        """Return a node's guard file that lets these checks in, and no more."""
        plan = None if self.made_up else plan_to_pin(reference)
        drawn = 'plans = "any"  # each check draws cells of its own: the columns have many symbols'
        return (
            fill(
                "guard.toml.txt",
                trust=_AGGREGATED if self.aggregators else _TRUSTED,
                domain=reference.domain.fingerprint,
                plans=f'plans = ["{plan}"]' if plan else _LATER if self.made_up else drawn,
                epsilon=self.share if self.made_up else self.epsilon,
                delta=STANDING_DELTA if self.is_standing else 0,
                cohort=self.least,
                days=self.budget.window_days,
                budget=self.budget.epsilon,
            ).rstrip()
            + "\n"
        )


def _most_of(clients: int) -> int:
    """Return three quarters of them, rounded up: of two or three, all."""
    return -(-clients * 3 // 4)


def package_of(name: str) -> str:
    """Return the Python package of an app's name."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is not a valid name for a Flower app: give --out a folder of at most 32 "
            "letters, digits and hyphens, starting with a letter"
        )
    package = name.replace("-", "_")
    taken = package in sys.stdlib_module_names or package in packages_distributions()
    if taken or keyword.iskeyword(package) or package in ("flwr_kld", "deploy"):
        raise ValueError(f"{name!r} is taken by another Python package: give another --out")
    return package


def app_files(
    name: str,
    reference: Reference,
    proposal: Proposal,
    *,
    ledger: str,
    sample: Path,
    book: Path,
    identifier: str | None = None,
) -> dict[str, str]:
    """Return the app's text files, without its reference, by their paths in it."""
    package = package_of(name)
    more: list[str] = []
    clients, both, also = ["answer_drift_queries", "node_records"], "reference", ""
    if pinned := proposal.aggregators:
        more = ["secure_sum=PinnedByNode()", "aggregators=AGGREGATORS"]
        clients += ["PinnedByNode", "aggregate_drift_checks"]
        both, also = "AGGREGATORS, reference", "\naggregate_drift_checks(app)"
    return {
        f"{package}/__init__.py": "",
        f"{package}/drift.py": fill("drift.py.txt") + _pinned(pinned),
        f"{package}/client_app.py": fill(
            "client_app.py.txt",
            package=package,
            both=both,
            clients=_imported("flwr_kld.clients", ", ".join(sorted(clients, key=_as_imported))),
            arguments=arguments_of("app", "reference", identifier, more),
            also=also,
        ),
        f"{package}/server_app.py": fill(
            "server_app.py.txt",
            package=package,
            both=both,
            strategies=_imported("flwr_kld.strategies", proposal.names()),
            monitor=indent(proposal.monitor(), "    ").rstrip(),
        ),
        "pyproject.toml": fill(
            "pyproject.toml.txt",
            name=name,
            package=package,
            made=_MADE if proposal.made_up else "",
            ledger=quoted(ledger),
            sample=quoted(str(sample)),
            book=f"{BOOK} = {quoted(str(book))}\n" if proposal.is_standing else "",
        ),
        "deploy/guard.toml": proposal.guard(reference),
        ".gitignore": "drift.db*\nstanding.db*\n",
    }


def arguments_of(app: str, reference: str, identifier: str | None, more: Sequence[str] = ()) -> str:
    """Return what ``answer_drift_queries`` is called with, in lines as a formatter breaks them."""
    found = [app, "node_records", f"{reference}.domain", *more]
    if identifier is not None:
        rows = f"node_records(context, {reference}.domain)"
        found.append(f"record_ids=lambda context: {rows}[{identifier!r}]")
    elif not more:
        return ", ".join(found)
    return "".join(f"\n    {one}," for one in found) + "\n"


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write text files by their paths in a folder, which is made where it is missing."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def _pinned(aggregators: Sequence[str]) -> str:
    """Return the lines that pin two aggregators; none without."""
    keys = "".join(f'    bytes.fromhex("{key}"),\n' for key in aggregators)
    return f"AGGREGATORS = (\n{keys})\n" if keys else ""


def _as_imported(name: str) -> tuple[bool, str]:
    """Order names as the formatter does: classes first."""
    return name[0].islower(), name


def _imported(module: str, names: str) -> str:
    """Return the line, or lines where that is too long, that import some names."""
    line = f"from {module} import {names}"
    if len(line) <= _WIDTH:
        return line
    return f"from {module} import (\n" + "".join(f"    {n},\n" for n in names.split(", ")) + ")"
