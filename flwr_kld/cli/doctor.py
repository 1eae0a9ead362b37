"""``flwr-kld doctor``: finds what would make a check fail, before anything is spent.

SuperLink and SuperNodes are asked for their versions by a run of an app that asks for nothing else:
Flower's command line reaches no node but by a run. The app brings its own question, so that nodes
answer whatever flwr-kld they have, or none; it lists what the operator's app lists, so that they
answer from the environment in which that app would run. They also name the keys of their node
configs, which are held against what the app reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import tomli_w
import typer
from pydantic import Field, Strict

from flwr_kld.ask.partition import plan_to_pin
from flwr_kld.cli.budget import last_check
from flwr_kld.cli.common import (
    DEFAULT_POPULATION,
    NIGHTLY,
    AsJson,
    Connection,
    ExitCode,
    OwnConfig,
    OwnData,
    OwnQuery,
    Population,
    RunConfig,
    Zone,
    print_json,
    refuse_given,
    results,
    unavailable,
    utc,
)
from flwr_kld.cli.flower_app import (
    CHECK_IN_RUN_CONFIG,
    Facts,
    checks_beside_training,
    component,
    facts_of,
    read_project,
    run_config,
    same_database,
    schedule_of,
    shown,
)
from flwr_kld.cli.flower_run import run_app
from flwr_kld.cli.ledger_url import existing_ledger
from flwr_kld.cli.new_app import SAMPLE, SIMULATED, fill, write_files
from flwr_kld.cli.node_keys import read_roster
from flwr_kld.cli.records import check_records
from flwr_kld.cli.reference import in_words, rows_of_columns, short_of
from flwr_kld.cli.sample import made_up
from flwr_kld.cli.schedule import Schedule, parse_schedule
from flwr_kld.common.errors import LedgerError, NoBudget
from flwr_kld.common.flower import untested_flower
from flwr_kld.common.strict_model import Model
from flwr_kld.guard import node_identity
from flwr_kld.guard.limits import read_limits
from flwr_kld.ledger.budget import exact
from flwr_kld.ledger.pace import Pace
from flwr_kld.reference import Reference
from flwr_kld.table.table import Table
from flwr_kld.trust.terms import VERSION


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str  # The thing
    state: Literal["ok", "warning", "failed"]  # Whether a check can go on with it
    words: str  # How it is
    next: str | None = None  # What to do where it is not well


def _ok(what: str, words: str) -> Finding:
    return Finding(what, "ok", words)


def _warned(what: str, words: str, then: str) -> Finding:
    return Finding(what, "warning", words, then)


def _failed(what: str, words: object, then: str) -> Finding:
    return Finding(what, "failed", str(words), then)


def versions() -> Finding:
    """Say what is installed here, and what flwr-kld speaks."""
    if untested := untested_flower():
        return _warned("versions", untested, "pip install flwr-kld, which brings one that is")
    return _ok(
        "versions",
        f"flwr-kld {version('flwr-kld')}, messages {VERSION}, Flower {version('flwr')}: SuperLink "
        "and SuperNodes need the same flwr-kld",
    )


def check_app(app: Path) -> Iterator[Finding]:
    """Look at the app's files and run config."""
    try:
        project = read_project(app)
        for kind in ("serverapp", "clientapp"):
            named = component(app, project, kind)
            if not {named.name, "*"} & named.names:
                raise ValueError(f"pyproject.toml names {named.name} in {named.file}: it has none")
    except ValueError as error:
        yield _failed("app", error, f"flwr-kld init SAMPLE --out NEW, or correct {app}")
        return
    config = run_config(project)
    if CHECK_IN_RUN_CONFIG not in config and not checks_beside_training(app):
        words = f"its run config does not declare {CHECK_IN_RUN_CONFIG}"
        add = f"add {CHECK_IN_RUN_CONFIG} = '' under [tool.flwr.app.config] in "
        yield _failed("app", words, f"{add}{app / 'pyproject.toml'}")
        return
    yield _ok("app", str(app))
    if component(app, project, "serverapp").names & {"SecureSum", "Distributed"}:
        words = "over secure sums one client that lies can decide every verdict"
        prove = "TwoAggregators(…), where clients prove what they count: docs/trust.md"
        yield _warned("trust", words, prove)
    if config.get(SAMPLE) and not Path(str(config[SAMPLE])).is_file():
        put = f"put it there, or change {SAMPLE} in {app / 'pyproject.toml'}"
        yield _warned("sample", f"there is no file {config[SAMPLE]}", put)


def app_dependencies(project: Mapping[str, Any]) -> list[str]:
    """Return what an app's pyproject.toml lists."""
    own = project.get("project")
    listed = own.get("dependencies") if isinstance(own, dict) else None
    return [str(one) for one in listed] if isinstance(listed, list) else []


def the_reference(app: Path, facts: Facts) -> Iterator[Finding]:
    """Look at the references that the app ships, and at what its draft of a guard file lets in."""
    found = {}
    for file in sorted(app.glob("*/reference.json")):
        table = file.with_name("table.toml")
        try:
            found[file] = Reference.load(file, Table.from_toml(table) if table.is_file() else None)
        except ValueError as error:
            again = "flwr-kld init SAMPLE --out NEW writes another, or correct this one"
            yield _failed("reference", error, again)
            return
        domain = found[file].domain
        if isinstance(domain, Table) and (
            found[file].fingerprint == made_up(table, domain).reference.fingerprint
        ):
            words = f"{file}: made up of the data dictionary, and shows only that checks run"
            give = f"--reference {file} --ledger {facts.ledger} --run-config '{SAMPLE}=\"\"'"
            make = f"flwr-kld describe {app} CONNECTION {give} --key first: clients make it"
            yield _warned("reference", words, make)
            continue
        yield _ok("reference", f"{file}: {found[file].fingerprint[:12]}")
        if needed := rows_of_columns(found[file], facts.threshold):
            words = f"{file}: {in_words(found[file], needed)}"
            more = (
                f"make one of about {next(iter(needed.values())):,} records (flwr-kld init, "
                "flwr-kld reference build), or allow a coarser Alarm(resolution=…)"
            )
            few = short_of(found[file], needed)
            yield _warned("reference", words, more) if few else _ok("reference", words)
    draft = app / "deploy" / "guard.toml"
    if draft.is_file():
        yield _guard(draft, found.values(), facts)


def _guard(file: Path, references: Iterable[Reference], facts: Facts) -> Finding:
    """Look whether a guard file lets the app's checks in."""
    try:
        limits = read_limits(file)
    except ValueError as error:
        return _failed("guard", f"{file}: {error}", f"correct {file}: see docs/guard.md")
    allowed = limits.allow
    for reference in references:
        if allowed.domains is not None and reference.domain.fingerprint not in allowed.domains:
            allow = f'add "{reference.domain.fingerprint}" to allow.domains in {file}'
            return _failed("guard", f"{file} refuses the app's domain", allow)
        plan = plan_to_pin(reference)
        if allowed.plans is not None and plan not in allowed.plans:
            one = f'add "{plan}" to allow.plans' if plan else 'set allow.plans = "any"'
            return _failed(
                "guard", f"{file} refuses what the app's checks count", f"{one} in {file}"
            )
    if facts.epsilon is not None and exact(facts.epsilon) > limits.check.max_epsilon:
        raise_it = f"raise check.max_epsilon in {file} to {facts.epsilon:g}"
        return _failed("guard", f"{file} refuses epsilon {facts.epsilon:g}", raise_it)
    return _ok("guard", f"the draft {file} allows these checks; each node's own may refuse them")


def check_keys(key: Path | None, roster: Path | None) -> Finding | None:
    """Look at a node's key and the roster, where secure sums need them."""
    if key is None and roster is None:
        return None
    make = f"flwr-kld keys make {key or 'FILE'}, on the node"
    if key is not None and not key.is_file():
        return _failed("key", f"there is no file {key}", make)
    try:
        public = None if key is None else node_identity(key).public
    except (OSError, ValueError) as error:
        return _failed("key", error, f"chmod 600 {key}, or {make}")
    write = f"flwr-kld keys roster {roster or 'roster.json'} NAME=PUBLIC …, with every node"
    if roster is None:
        return _failed("roster", "a node's key needs one", write)
    try:
        listed = read_roster(roster)
    except ValueError as error:
        return _failed("roster", error, write)
    if public is not None and public not in listed.keys:
        return _failed("roster", f"{roster} does not list the key {public.hex()}", write)
    name = "" if public is None else f"; this node is {listed.names[listed.keys.index(public)]!r}"
    return _ok("roster", f"{roster}: {len(listed)} nodes{name}")


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
        last = last_check(ledger, population)
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
    left = f"{shown(url)}: {spent.left:.4g} left of {spent.budget}"
    everybody = facts.cohort is None and last is not None and last[1].nights == 1
    if everybody and last is not None and not ledger.room_for(last[0]):
        ways = [] if spent.frees_at is None else [f"wait until {utc(spent.frees_at)}"]
        ways += ["lower the epsilon of a check"] if spent.left > 0 else []
        words = f"{left}: another check like the last would be refused"
        yield _failed("ledger", words, ", or ".join(ways) or "raise the budget")
    else:
        yield _ok("ledger", left)
    if newest is not None and newest.started > datetime.now(UTC):
        behind = newest.started.isoformat(timespec="seconds")
        words = f"this machine's clock is behind the ledger's last entry, made at {behind}"
        yield _failed("clock", words, "set it: timedatectl set-ntp true")
    if facts.simulated and population != SIMULATED:
        words = f"with its present run config, {app} simulates nodes on a public sample"
        yield _warned("sample", words, f"for a deployment, give check --run-config '{SAMPLE}=\"\"'")


def check_pace(
    facts: Facts, url: str | None, population: str, when: str, slots: Schedule, clients: int | None
) -> Finding | None:
    """Hold checks in a window × epsilon against the budget."""
    if url is None:
        return None
    if facts.epsilon is None:
        words = "the epsilon of a check is not written in the app as one number"
        return _warned("budget", words, "hold it against what flwr-kld budget shows")
    try:
        budget = existing_ledger(url).budget(population)
    except (LedgerError, ValueError, OSError, ImportError):
        return None  # said already
    pace = facts.pace(budget, slots, clients)
    if pace is None:
        words = "how often a rotation comes to the same client depends on how many there are"
        return _warned("budget", words, "give --clients")
    try:
        return (
            _within(pace, facts, when, clients)
            if pace.fits
            else _failed("budget", str(pace), pace.advice)
        )
    except ValueError as error:  # what a check hides is less than the budget promises
        words, _, mend = str(error).partition(": ")
        return _failed("budget", words, mend)


def _within(pace: Pace, facts: Facts, when: str, clients: int | None) -> Finding:
    """Name the command that says what checks of this epsilon find."""
    plan = f"flwr-kld plan REFERENCE --epsilon {facts.epsilon:g} --schedule {quote(when)}"
    plan += " --standing" * bool(facts.nights) + f" --clients {facts.cohort or clients or 'N'}"
    finds = f"{plan} --records M says which drifts such checks find, of M records a client"
    return Finding("budget", "ok", str(pace), finds)


_MARK = "flwr-kld-versions"

_LINE = re.compile(rf"{_MARK} (server|asked|\d{{1,20}}) (.*)")

_LONGEST = 600
"""Characters that are kept of what a node says."""

_SHOWN = 100
"""Of these, in an error's words."""

_MOST_NAMES = 5
"""Nodes that a line names."""

_ANSWERED_BY = 30
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
    keys: Annotated[str, Field(pattern=r"^[a-z0-9_,-]{0,300}$")]  # Of checks, in the node config

    def __str__(self) -> str:
        if not self.flwr_kld:
            return f"no flwr-kld, Flower {self.flwr}"
        versions = f"flwr-kld {self.flwr_kld}, messages {self.messages or '?'}, Flower {self.flwr}"
        return f"{versions}; {self.keys.replace(',', ', ')}" if self.keys else versions

    def lacks(self, needed: Mapping[str, Sequence[str]]) -> str:
        """Say which keys its node config lacks, and what of the app reads them."""
        return "; ".join(
            f"the node config has no {key}, which {reader} needs"
            for reader, reads in needed.items()
            for key in reads
            if (reader == _AGGREGATOR) == self.is_aggregator and key not in self.keys.split(",")
        )

    @property
    def is_aggregator(self) -> bool:
        """Whether its node config gives it that role."""
        return "drift-role" in self.keys.split(",")


@dataclass
class _Heard:
    """What the run's log says."""

    server: Installed | None = None  # Where ServerApps run
    # On each node that answered; or what it said, where that is not in the one form that there is
    nodes: dict[int, Installed | str] = field(default_factory=dict)
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
        installed: Installed | str = text[:_SHOWN]
        with suppress(ValueError):
            installed = Installed.from_json(text)
        if who != "server":
            self.nodes[int(who)] = installed
        elif isinstance(installed, Installed):
            self.server = installed


_AGGREGATOR = "an aggregator"
_READS = {"node_records": ("drift-records",), "PinnedByNode": ("drift-identity", "drift-roster")}
"""Keys of the node config that an app's calls cannot do without."""
_AGGREGATORS = {"TwoAggregators": 2, "TrustedAggregator": 1}
"""How many of them a trust model needs."""


def _needed(app: Path, project: dict[str, Any], *, simulated: bool) -> dict[str, Sequence[str]]:
    """Return which calls of a ClientApp read which keys, as far as its file shows."""
    names = component(app, project, "clientapp").names
    knows = ("drift-roster",) if "PinnedByNode" in names else ()
    of_aggregators: dict[str, Sequence[str]] = {_AGGREGATOR: ("drift-key", *knows)}
    return of_aggregators | {
        name: keys
        for name, keys in _READS.items()
        if name in names and not (simulated and name == "node_records")
    }


def the_nodes(app: Path, connection: str, *, simulated: bool) -> Iterator[Finding]:
    """Ask SuperLink and SuperNodes for versions and keys; hold them against another and the app."""
    heard, project = _Heard(), read_project(app)
    needed = _needed(app, project, simulated=simulated)
    models = component(app, project, "serverapp").names & _AGGREGATORS.keys()
    aggregators = 0 if simulated else max((_AGGREGATORS[one] for one in models), default=0)
    with TemporaryDirectory(prefix="flwr-kld-") as folder:
        _write(Path(folder), project)
        try:
            run = run_app(Path(folder), connection, (), timeout=_TIMEOUT, heard=heard.hear)
        except RuntimeError as error:
            yield _failed("nodes", error, "pip install flwr")
            return
    if heard.server is None or heard.asked is None:
        words = run.exception or run.last_words or "its log says nothing"
        look = "correct this" if run.run is None else f"flwr log {run.run} {connection} --show"
        then = f"{look}; a check of {app} would fail likewise"
        yield _failed("nodes", f"the run that asks them for their versions failed: {words}", then)
        return
    yield from _server(heard.server)
    yield from _compared(heard, heard.asked, heard.server, connection, needed)
    nodes = [one for one in heard.nodes.values() if isinstance(one, Installed)]
    if (there := sum(one.is_aggregator for one in nodes)) < aggregators:
        words = f"{there} of the {aggregators} that the app's checks need are connected"
        start = """start each with --node-config 'drift-role="aggregator" …': docs/trust.md"""
        yield _failed("aggregators", words, start)


def _write(folder: Path, project: Mapping[str, Any]) -> None:
    """Write the app, with the dependencies of another and the places where uv finds them."""
    listed = tomli_w.dumps({"dependencies": app_dependencies(project)})
    uv = tomli_w.dumps({"tool": {"uv": project.get("tool", {}).get("uv", {})}})
    question = fill("versions.py.txt", mark=_MARK, longest=_LONGEST, wait=_ANSWERED_BY)
    made = fill("versions.toml.txt", dependencies=listed, uv=uv)
    files = {"asked/__init__.py": "", "asked/versions.py": question, "pyproject.toml": made}
    write_files(folder, files)


def _server(server: Installed) -> Iterator[Finding]:
    own = version("flwr-kld")
    if not server.flwr_kld:
        install = f"pip install flwr-kld=={own}, where ServerApps run"
        yield _failed("server", server, install)
    elif server.flwr_kld != own:
        words = f"{server}; this command has flwr-kld {own}, and reads what the server writes"
        yield _warned("server", words, "install the same flwr-kld beside this command")
    else:
        yield _ok("server", str(server))


def _compared(
    heard: _Heard,
    asked: Sequence[int],
    server: Installed,
    connection: str,
    needed: Mapping[str, Sequence[str]],
) -> Iterator[Finding]:
    if not asked:
        start = f"start one: flower-supernode …; flwr supernode list {connection}"
        yield _failed("nodes", "none is connected", start)
    alike: dict[Installed | str, list[int]] = {}
    for node, installed in heard.nodes.items():
        alike.setdefault(installed, []).append(node)
    for installed, nodes in alike.items():
        words = f"{_named(nodes, asked)}: {installed}"
        if isinstance(installed, str):
            words = f"{_named(nodes, asked)} cannot answer: {installed}"
            look = f"look at these SuperNodes' logs; flwr supernode list {connection} names them"
            yield _failed("nodes", words, look)
        elif server.messages and installed.messages != server.messages:
            words += f"; the server's messages are {server.messages}: checks would leave them out"
            install = f"install flwr-kld {server.flwr_kld} on them, or theirs on all others"
            yield _failed("nodes", words, install)
        elif odd := _unknown(installed.keys):
            words += f"; no check reads its node config's {', '.join(odd)}"
            yield _failed("nodes", words, "correct the key: every check is refused until then")
        elif lacks := installed.lacks(needed):
            start = "start these nodes with it: flower-supernode … --node-config 'key=\"value\" …'"
            yield _failed("nodes", f"{words}; {lacks}", start)
        elif installed.flwr_kld != server.flwr_kld:
            words += (
                f"; the server has {server.flwr_kld}: the same messages, but secure sums and seals "
                "have versions of their own"
            )
            yield _warned("nodes", words, "install the same flwr-kld on all")
        else:
            yield _ok("nodes", words)
    if silent := [one for one in asked if one not in heard.nodes]:
        words = f"{_named(silent, asked)} did not answer within {_ANSWERED_BY} s"
        wait = "they may be busy with another run: look at their logs, and run doctor again"
        yield _warned("nodes", words, wait)


def _unknown(keys: str) -> list[str]:
    from flwr_kld.clients.node_config import unknown  # takes half a second

    return unknown(keys.split(","))


def _named(nodes: Sequence[int], asked: Sequence[int]) -> str:
    """Name some of the nodes, if they are not all."""
    if len(nodes) == len(asked):
        return f"all {len(asked)}"
    more = ", …" if len(nodes) > _MOST_NAMES else ""
    return f"{len(nodes)} of {len(asked)} ({', '.join(map(str, nodes[:_MOST_NAMES]))}{more})"


_MARKS = {"ok": "[green]ok  [/]", "warning": "[yellow]warn[/]", "failed": "[bold red]FAIL[/]"}


def doctor(
    context: typer.Context,
    app: Annotated[
        Path | None, typer.Argument(help="Folder of the Flower app that checks.")
    ] = None,
    connection: Connection = None,
    *,
    data: OwnData = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Data dictionary of --data, table.toml; or a reference, .json, which also says "
            "how much of a column is usually unlisted."
        ),
    ] = None,
    query: OwnQuery = "",
    node_config: OwnConfig = "",
    ledger: Annotated[
        str | None,
        typer.Option(
            envvar="FLWR_KLD_LEDGER", help="Database of the ledger; by default the app's own."
        ),
    ] = None,
    population: Population = DEFAULT_POPULATION,
    schedule: Annotated[
        str | None,
        typer.Option(
            help="When checks come: a cron expression or 'every 6h'; by default as in the app's "
            "deploy/kld.cron."
        ),
    ] = None,
    zone: Zone = "UTC",
    clients: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of nodes in the deployment, which says how long the budget lasts."
        ),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="A node's signing key, where secure sums are used.")
    ] = None,
    roster: Annotated[Path | None, typer.Option(help="The roster of all nodes.")] = None,
    run_config: RunConfig = None,
    as_json: AsJson = False,
) -> None:
    """Inspect everything that a check needs, or a node's records; this spends nothing.

    The app, its reference and guard file, keys and roster, the ledger, and its budget against the
    schedule. With a CONNECTION, a short run asks its SuperLink and SuperNodes for their versions
    and the keys of their node configs. Each line that fails names the command to run next.

    With --data and --table, on a node: what of its records each column would read as 'other' or
    'missing'. They are read as in a check and counted for this terminal alone.

    Exit codes: 0 nothing would prevent a check, 4 something would.
    """
    if data is not None:
        if table is None or app is not None:
            raise ValueError("--data goes with --table, and without an app")
        refuse_given(
            context, "connection", "ledger", "population", "schedule", "zone", "clients", "key",
            "roster", "run_config", why="with --data",
        )  # fmt: skip
        check_records(data, table, query=query, node_config=node_config, as_json=as_json)
        return
    refuse_given(context, "table", "query", "node_config", why="without --data")
    if app is None:
        raise ValueError("name the folder of an app, or a node's records: --data FILE --table FILE")
    when = schedule or schedule_of(app)
    slots = parse_schedule(when or NIGHTLY, zone=zone)
    facts = facts_of(app, run_config or ())
    url = ledger or facts.ledger
    looked = [
        versions(),
        *check_app(app),
        *the_reference(app, facts),
        check_keys(key, roster),
        *the_ledger(facts, url, population, app),
        pace := check_pace(facts, url, population, when or NIGHTLY, slots, clients),
        _warned("schedule", "taken to be nightly", "give --schedule")
        if pace and not when
        else None,
    ]
    found = [finding for finding in looked if finding is not None]
    stopped = any(one.state == "failed" and one.what == "app" for one in found)
    if connection is not None and not stopped:
        found += the_nodes(app, connection, simulated=facts.simulated)
    if as_json:
        print_json([vars(finding) for finding in found])
    else:
        for finding in found:
            results.print(_MARKS[finding.state], end=" ")
            results.print(f"{finding.what}: {finding.words}", markup=False, soft_wrap=True)
            if finding.next is not None:
                results.print(f"       next: {finding.next}", markup=False, soft_wrap=True)
    failed = any(finding.state == "failed" for finding in found)
    raise typer.Exit(ExitCode.ERROR if failed else ExitCode.NO_DRIFT)
