"""``flwr-kld init``: an app that checks, new or made of one that trains."""

from __future__ import annotations

import ast
import difflib
import os
import re
import tomllib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from shlex import join, quote
from shutil import rmtree
from sysconfig import get_path
from textwrap import indent
from typing import Annotated, Any, Literal

import typer
from rich.syntax import Syntax

from flwr_kld.cli.common import MONTHLY, NIGHTLY, AllowUnlisted, print_note, refuse_given, results
from flwr_kld.cli.flower_app import (
    BY_HAND,
    CHECK_IN_RUN_CONFIG,
    CRON,
    STATISTICS_IN_RUN_CONFIG,
    Component,
    component,
    read_project,
    run_config,
)
from flwr_kld.cli.foreseen import foreseen
from flwr_kld.cli.ledger_url import absolute_url, sqlite_file
from flwr_kld.cli.new_app import (
    BOOK,
    LEDGER,
    SAMPLE,
    SIMULATED,
    Proposal,
    app_files,
    arguments_of,
    fill,
    quoted,
    write_files,
)
from flwr_kld.cli.reference import (
    DEFAULT_THRESHOLD,
    Bins,
    MostLabels,
    in_words,
    require_effect,
    rows_of_columns,
)
from flwr_kld.cli.sample import Sample, read_sample
from flwr_kld.cli.schedule import Cron, checks_of_a_year, most_in_window
from flwr_kld.common.errors import NoBudget
from flwr_kld.kernel.continual import MOST_NIGHTS
from flwr_kld.ledger import Budget, Ledger
from flwr_kld.table.dialect import FILES
from flwr_kld.table.frame import texts_in
from flwr_kld.table.sniff import signs_in
from flwr_kld.table.table import Table
from flwr_kld.trust.sealing import check_pair

_SECTION = re.compile(r"^\[tool\.flwr\.app\.config\][ \t]*(#.*)?$", re.MULTILINE)

_CALL = "answer_drift_queries"


def checks_into(
    app: Path,
    proposal: Proposal,
    *,
    ledger: str,
    sample: Path,
    book: Path,
    identifier: str | None,
    schedule: str,
    yes: bool,
) -> Path | None:
    """Add checks to an app, once its owner has seen the changes."""
    project = read_project(app)
    client, server = (component(app, project, kind) for kind in ("clientapp", "serverapp"))
    folder = client.file.parent
    if folder == app:
        raise ValueError(f"{app} does not keep its apps in a package{BY_HAND}")
    package = ".".join(folder.relative_to(app).parts)
    drift = folder / "drift.py"
    if drift.exists() or _CALL in client.text:
        raise ValueError(f"{app} already has drift checks: flwr-kld doctor {app} inspects them")
    trains = bool(_starts(_main(server)))
    wanted = {LEDGER: quoted(ledger)} | ({} if trains else {CHECK_IN_RUN_CONFIG: '""'})
    wanted[SAMPLE] = f'{quoted(str(sample))}  # public rows for simulated nodes; "" on a deployment'
    if proposal.made_up:
        wanted[STATISTICS_IN_RUN_CONFIG] = '""'
    if proposal.is_standing:
        wanted[BOOK] = quoted(str(book))
    changed = {
        client.file: _client(client, package, identifier),
        server.file: _server(server, package, proposal),
        app / "pyproject.toml": _project(app, project, wanted),
        drift: fill("drift.py.txt"),
    }
    new = [folder / "reference.json", folder / "table.toml"]
    if not trains:
        changed[app / CRON] = schedule
        new.append(app / CRON)
    if proposal.made_up:
        new.append(sample)
    if there := next((file for file in new if file.exists()), None):
        raise ValueError(f"{there} exists already: move it away first")
    _show(app, changed)
    if not yes and not _agreed():
        print_note("nothing was changed")
        return None
    write_files(app, {str(file): text for file, text in changed.items()})
    if trains:
        print_note(
            "each run of the app ends with a check, after the last round of training. The budget "
            "is divided for a run in each slot of --schedule, by default nightly: say how often "
            "you train"
        )
    print_note(
        "simulated nodes answer from the sample. To check what they train on, answer from a "
        "function of your own: docs/quickstart/table.md, Into an app that is there"
    )
    print_note("for a deployment: each node's operator writes a guard file: see docs/guard.md")
    return folder


def _agreed() -> bool:
    """Ask the app's owner."""
    try:
        return typer.confirm("write this?")
    except typer.Abort:
        raise ValueError("nothing was changed: give --yes to write it without asking") from None


def _client(client: Component, package: str, identifier: str | None) -> str:
    """Return the ClientApp's file with one call more."""
    made = _assigned(client)
    if made.args or any(word.arg == "client_fn" for word in made.keywords):
        raise ValueError(
            f"{client.file} makes its ClientApp from a client_fn, which answers no queries: move "
            f"it to @app.train() and @app.evaluate(){BY_HAND}"
        )
    known = _free("reference", client)
    call = f"\n\n{_CALL}({arguments_of(client.name, known, identifier)})"
    added = [
        _import_reference(package, known),
        f"from flwr_kld.clients import {_CALL}, node_records",
    ]
    return _written(client, {_after_imports(client): added}, call)


def _server(server: Component, package: str, proposal: Proposal) -> str:
    """Return the ServerApp's file with a monitor, and what runs it."""
    _assigned(server)
    main = _main(server)
    grid, context = (argument.arg for argument in main.args.args[:2])
    config = f"{context}.run_config"
    ours = ("monitor", "simulated", "sampled", "reference", "key")
    names = {name: _free(name, server) for name in ours}
    code = proposal.monitor(config)
    for name, free in names.items():
        code = re.sub(rf"(?<![\w\"]){name}(?![\w\"])", free, code)
    code = re.sub(r"\bgrid\b", grid, code)
    starts = _starts(main)
    if len(starts) > 1:
        raise ValueError(f"{server.file} starts more than one strategy{BY_HAND}")
    imported = proposal.names()
    if starts:
        place, strategy, rounds = _training(server, starts[0])
        imported += ", WithDriftChecks"
        last = f"{strategy} = WithDriftChecks({strategy}, {names['monitor']}, every={rounds})"
    else:
        place = main.body[-1]
        key = f"str({config}[{CHECK_IN_RUN_CONFIG!r}]) or None".replace("'", '"')
        last = f"print({names['monitor']}.check({grid}, key={key}))"
    column = " " * place.col_offset
    before = starts or isinstance(place, ast.Return)
    line = place.lineno - 1 if before else place.end_lineno or place.lineno
    added = [
        _import_reference(package, names["reference"]),
        f"from flwr_kld.strategies import {imported}",
    ]
    lines = indent(code + last, column).splitlines()
    return _written(server, {_after_imports(server): added, line: lines}, "")


def _project(app: Path, project: dict[str, Any], wanted: dict[str, str]) -> str:
    """Return pyproject.toml with the run config that checks need."""
    file = app / "pyproject.toml"
    text = file.read_bytes().decode()
    end = "\r\n" if "\r\n" in text else "\n"
    known = run_config(project)
    lines = end.join(f"{name} = {value}" for name, value in wanted.items() if name not in known)
    if section := _SECTION.search(text):
        found = text[: section.end()] + end + lines + text[section.end() :]
    else:
        found = f"{text.rstrip()}{end}{end}[tool.flwr.app.config]{end}{lines}{end}"
    try:
        sound = run_config(tomllib.loads(found)).keys() == known.keys() | wanted.keys()
    except ValueError:
        sound = False
    if not sound:
        raise ValueError(f"{file} writes its run config in a form that init cannot change{BY_HAND}")
    return found


def _assigned(app: Component) -> ast.Call:
    """Return the call that makes an app."""
    for node in app.tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == app.name for target in targets):
                return node.value
    raise ValueError(f"{app.file} assigns no app to {app.name!r}{BY_HAND}")


def _main(server: Component) -> ast.FunctionDef:
    """Return the function that Flower runs."""
    for node in server.tree.body:
        if isinstance(node, ast.FunctionDef) and len(node.args.args) >= 2:
            for decorator in node.decorator_list:
                call = decorator.func if isinstance(decorator, ast.Call) else decorator
                if ast.unparse(call) == f"{server.name}.main":
                    return node
    raise ValueError(
        f"{server.file} has no function under @{server.name}.main(), as Flower's Message API "
        f"wants it{BY_HAND}"
    )


def _starts(main: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls that start a strategy: an app that trains has one."""
    return [node for node in ast.walk(main) if isinstance(node, ast.Call) and _is_start(node)]


def _is_start(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "start":
        return False
    named = any(word.arg in ("grid", "initial_arrays") for word in call.keywords)
    return named or len(call.args) > 1


def _training(server: Component, start: ast.Call) -> tuple[ast.stmt, str, str]:
    """Return the statement that starts training, its strategy, and its number of rounds."""
    strategy = start.func.value if isinstance(start.func, ast.Attribute) else None
    statements = [
        node
        for node in ast.walk(server.tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return)
        and node.value is start
    ]
    if not statements or not isinstance(strategy, ast.Name):
        raise ValueError(
            f"{server.file} starts its strategy in a form that init cannot change{BY_HAND}"
        )
    given = [word.value for word in start.keywords if word.arg == "num_rounds"] + start.args[2:3]
    return statements[0], strategy.id, ast.unparse(given[0]) if given else "3"


def _after_imports(app: Component) -> int:
    """Return the line after which imports go."""
    lines = [
        node.end_lineno or node.lineno
        for i, node in enumerate(app.tree.body)
        if isinstance(node, ast.Import | ast.ImportFrom) or (i == 0 and isinstance(node, ast.Expr))
    ]
    return max(lines, default=0)


def _free(name: str, app: Component) -> str:
    """Return a name that the code does not use."""
    return f"drift_{name}" if name in app.names else name


def _import_reference(package: str, known: str) -> str:
    renamed = "" if known == "reference" else f" as {known}"
    return f"from {package}.drift import reference{renamed}"


def _written(app: Component, added: dict[int, list[str]], at_end: str) -> str:
    """Return the code with lines put after others, which count from 1; it must still be Python."""
    lines = app.text.rstrip("\n").split("\n")
    for after in sorted(added, reverse=True):
        lines[after:after] = added[after]
    text = "\n".join([*lines, *([at_end] if at_end else [])]) + "\n"
    try:
        ast.parse(text)
    except SyntaxError:
        raise ValueError(
            f"{app.file} is written in a form that init cannot change{BY_HAND}"
        ) from None
    return text.replace("\n", "\r\n") if app.crlf else text


def _show(app: Path, changed: dict[Path, str]) -> None:
    """Print what changes, as a diff."""
    for file, text in changed.items():
        before = file.read_bytes().decode() if file.exists() else ""
        name = str(file.relative_to(app))
        diff = difflib.unified_diff(
            before.splitlines(), text.splitlines(), f"a/{name}", f"b/{name}", lineterm="", n=1
        )
        results.print(Syntax("\n".join(diff), "diff", theme="ansi_dark", word_wrap=True))


_PLAY = Budget(1000.0, 1e-6, 1.0, SIMULATED)
"""For simulated checks: they touch nobody."""


def init(
    context: typer.Context,
    sample: Annotated[
        Path | None,
        typer.Argument(
            help=f"PUBLIC rows, {FILES}; or only their data dictionary, table.toml. "
            "Clients and server see some of their values, as edges and labels."
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="New folder for the app; without it, only table.toml is written, here."),
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="Add checks to this Flower app; shows the changes first.")
    ] = None,
    template: Annotated[
        Literal["federated-analytics"] | None,
        typer.Option(
            help="Write this example to --out instead: an app that describes a table once, on "
            "simulated nodes."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before changing the app of --into.")
    ] = False,
    table: Annotated[
        Path | None,
        typer.Option(help="Data dictionary, table.toml, instead of one made of the public rows."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to check, whatever it holds; may be repeated. By default all columns but "
            "those that drift by themselves, such as identifiers."
        ),
    ] = None,
    bins: Bins = None,
    labels: MostLabels = None,
    identifier: Annotated[
        str | None, typer.Option("--id", help="Column that identifies a row permanently.")
    ] = None,
    period: Annotated[
        str | None,
        typer.Option(
            help="Column of each row's date, for tables that grow: each check counts only rows "
            "since the last one. Needs --id."
        ),
    ] = None,
    allow_unlisted: AllowUnlisted = False,
    clients: Annotated[int, typer.Option(min=2, help="Number of nodes in the deployment.")] = 4,
    epsilon: Annotated[
        float, typer.Option(help="Budget of each person in a window, in nats.")
    ] = 1.0,
    days: Annotated[
        float, typer.Option(help="Length of the budget's rolling window, in days.")
    ] = 30.0,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, help="Tolerated divergence of a column, in nats; 0.1 by default."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--schedule",
            help="When checks come, or the app trains: a cron expression, in UTC. By default every "
            "night; in a new app once a month where each check is charged by itself.",
        ),
    ] = None,
    connection: Annotated[
        str,
        typer.Option(
            help="SuperLink connection that the written schedule and the printed commands name."
        ),
    ] = "prod",
    ledger: Annotated[
        str | None, typer.Option(help="Database of the ledger; by default drift.db in the app.")
    ] = None,
    trust: Annotated[
        Literal["trusted", "two-aggregators"],
        typer.Option(
            help="Who may see a client's counts: the server, or nobody. Two aggregators check "
            "proofs of what they cannot see, so that no client can lie unnoticed."
        ),
    ] = "trusted",
    aggregator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PUBLIC", help="Public key of one of the two aggregators; give it twice."
        ),
    ] = None,
) -> None:
    """Write a Flower app that checks the columns of a table; or add checks to an app.

    A first check on simulated clients needs no line of Python. A data dictionary, table.toml, says
    what each column is and how files are written: read it, and edit it where it is wrong.
    """
    if template is not None:
        refuse_given(context, *(context.params.keys() - {"template", "out"}), why="with --template")
        if out is None:
            raise ValueError("--template needs --out, a new folder")
        _write_template(Path(os.path.abspath(out)))
        return
    if sample is None:
        raise ValueError("give public rows or their data dictionary, or --template and --out")
    if out is not None and into is not None:
        raise ValueError("give either --out, a new folder, or --into, a Flower app")
    if (table or sample.suffix == ".toml") and (column or bins or labels):
        raise ValueError(
            "--column, --bins and --labels are for a dictionary that init makes: edit the given one"
        )
    if period is not None and identifier is None:
        raise ValueError("--period needs --id: a row's place changes as rows come and go")
    if into is None:
        refuse_given(context, "yes", why="without --into")
    if trust == "trusted":
        refuse_given(context, "aggregator", why="without --trust two-aggregators")
    if sample.suffix == ".toml":
        refuse_given(context, "allow_unlisted", why="where there are no rows")
    aggregators = _aggregators(trust, aggregator or [])
    if aggregators and (period is not None or into is not None):
        raise ValueError(
            f"--trust two-aggregators goes with neither --period nor --into{BY_HAND}, and those of "
            "docs/trust.md"
        )
    # By sum, as a node's guard adds up: else the ledger lets checks through that guards refuse.
    budget = Budget(epsilon, 1e-6, days, composition="sum")
    rows = read_sample(
        sample, columns=column, identifier=identifier, period=period, bins=bins or 20,
        labels=labels or 20,
        known=None if table is None else Table.from_toml(table), allow_unlisted=allow_unlisted,
    )  # fmt: skip
    require_effect(threshold, rows.table)
    rows = rows.tolerating(DEFAULT_THRESHOLD if threshold is None else threshold)
    if out is None and into is None:
        refuse_given(
            context, "clients", "epsilon", "days", "at", "connection", "ledger", "trust",
            why="without --out or --into",
        )  # fmt: skip
        _write_table(rows, Path("table.toml"))
        return

    def proposed(at: str) -> Proposal:
        return Proposal(
            clients, most_in_window(Cron(at), days), budget, rows.made_up,
            None if period is None else rows.period(period),
            0 if identifier is None else checks_of_a_year(Cron(at)), aggregators,
        )  # fmt: skip

    often = at or NIGHTLY
    proposal = proposed(often)
    if at is None and into is None and proposal.epsilon < proposal.share:
        at = MONTHLY  # a 31st of the budget can seldom clear a column
        proposal = proposed(at)
    at = at or often
    yearly = checks_of_a_year(Cron(at))
    if proposal.is_standing and yearly > MOST_NIGHTS:
        raise ValueError(
            f"--schedule {at!r}: {yearly:,} checks a year are more than one standing session has, "
            f"{MOST_NIGHTS:,}: let them come more rarely, or leave --id out"
        )
    folder = Path(os.path.abspath(out or into or "."))
    if out is not None:
        _require_new(folder)
    ledger = _ledger_in(folder) if ledger is None else _named(ledger)
    public = folder / "public.csv" if rows.file is None else Path(os.path.abspath(rows.file))
    book = folder / "standing.db"
    waits = "" if out is None else f" drift-nodes={proposal.nodes}"
    real = ("--run-config", f'{SAMPLE}=""{waits}')
    schedule = _cron_line(folder, connection, at, ledger, real)
    with ExitStack() as undo:
        if into is not None:
            written = checks_into(
                folder, proposal, ledger=ledger, sample=public, book=book, identifier=identifier,
                schedule=schedule, yes=yes,
            )  # fmt: skip
            if not written:
                raise typer.Exit(0)
            package = written
        else:
            files = app_files(
                folder.name, rows.reference, proposal, ledger=ledger, sample=public, book=book,
                identifier=identifier,
            )  # fmt: skip
            # Else the same command, once the disk has room, would find the folder there.
            undo.callback(rmtree, folder, ignore_errors=True)
            write_files(folder, {**files, CRON: schedule})
            package = folder / folder.name.replace("-", "_")
        rows.reference.save(package / "reference.json")
        rows.table.to_toml(package / "table.toml")
        if rows.file is None:
            rows.save_rows(public)
        _open(ledger, budget)
        undo.pop_all()
    trains = into is not None and not (folder / CRON).exists()
    command = ["flwr", "run", str(folder), connection, "--stream", *real]
    if not trains:
        command = ["flwr-kld", "check", str(folder), connection, "--ledger", ledger, *real]
    _print_summary(rows, proposal, yearly, folder, ledger, package / "table.toml", command)
    for words in foreseen(rows, proposal, checks_of_a_year(Cron(often))):
        print_note(words)


def _write_template(folder: Path) -> None:
    """Write the example that the wheel has."""
    from flwr_kld.simulations import analytics_app  # the science loads without it

    _require_new(folder)
    write_files(folder, analytics_app())
    print_note("analytics/task.py has the table: its README.md says what to replace")
    results.print(f"next:\n  cd {quote(str(folder))} && flwr run . --stream", markup=False)


def _aggregators(trust: str, keys: list[str]) -> tuple[str, ...]:
    """Return the public keys of two aggregators; none where the server is trusted."""
    if trust == "trusted" and not keys:
        return ()
    try:
        first, *others = map(bytes.fromhex, keys or [""])
        return tuple(key.hex() for key in check_pair((first, b"".join(others))))
    except ValueError as error:
        raise ValueError(
            f"--trust two-aggregators needs the public keys of two aggregators, --aggregator "
            f"PUBLIC twice: {error}; docs/trust.md shows how each of them makes its own"
        ) from None


def _cron_line(app: Path, connection: str, at: str, ledger: str, real: Sequence[str]) -> str:
    """Return a line of cron that runs one idempotent check in each slot."""
    check = ["flwr-kld", "check", str(app), connection, "--schedule", at, *real]
    line = join(check).replace("%", r"\%")  # a bare % ends a line of cron
    # Where Flower finds connections; cron starts in another folder.
    home = Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr").absolute()
    path = get_path("scripts")
    return fill("cron", at=at, check=line, ledger=ledger, path=path, home=home)


def _require_new(folder: Path) -> None:
    """Refuse a folder that holds something: nothing of anybody's is written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(
            f"{folder} exists: give another --out, or add checks to the app in it with --into"
        )


def _ledger_in(folder: Path) -> str:
    """Return the URL of an app's own ledger."""
    url = f"sqlite:///{folder / 'drift.db'}"
    if sqlite_file(url) != folder / "drift.db":
        raise ValueError(
            f"{folder} cannot stand in a ledger's URL: give another --out, or --ledger"
        )
    return url


def _named(url: str) -> str:
    """Return the URL of a ledger that can be opened, or whose server nobody has asked yet."""
    if not url.startswith("postgresql"):
        Ledger(url)
    # A SuperLink and cron run in folders of their own, where a relative path names another file.
    return absolute_url(url)


def _open(url: str, budget: Budget) -> None:
    """Put the budgets in force; one that is in force stays."""
    if not url.startswith("sqlite"):
        print_note(
            f"set the budget: flwr-kld budget --ledger {quote(url)} --set {budget.epsilon:g} "
            f"--days {budget.window_days:g} --composition {budget.composition}"
        )
        return
    ledger = Ledger(url)
    for own in (budget, _PLAY):
        try:
            known = ledger.budget(own.population)
        except NoBudget:
            ledger.set_budget(own)
        else:
            if own is budget and known != budget:
                change = f"flwr-kld budget --ledger {quote(url)} --set {budget.epsilon:g} …"
                print_note(f"the ledger has a budget, which stays until {change}: {known}")


def _write_table(rows: Sample, file: Path) -> None:
    """Write the data dictionary alone, to be edited first."""
    if file.exists():
        raise ValueError(f"{file} exists: init SAMPLE --table {file} --out APP writes an app of it")
    rows.table.to_toml(file)
    _print_columns(rows)
    results.print("next:", markup=False)
    command = f"flwr-kld init {quote(str(rows.place))} --table {file} --out APP"
    why = f"once {file} says of each column what you want"
    results.print(f"  {command}\n      {why}", markup=False, soft_wrap=True)


def _print_columns(rows: Sample) -> None:
    """Say which columns are checked, how numbers are written, and why others are not."""
    print_note(f"checked: {', '.join(rows.table.columns)}")
    for name, words in rows.table.read_as.items():
        print_note(f"{name}: {words}")
    for name, source in rows.table.sources.items():
        if rows.table.columns[name].reads == "number":
            signs = signs_in(texts_in(rows.rows[source]), rows.table.dialect)
            mixed = "; values with different signs are compared as they stand" * (len(signs) > 1)
            if signs:
                print_note(f"{name}: numbers are read without {' and '.join(signs)}{mixed}")
    for name, reason in rows.table.left_out.items():
        print_note(f"left out: {name}: {reason}")


def _print_summary(
    rows: Sample,
    proposal: Proposal,
    yearly: int,
    folder: Path,
    ledger: str,
    table: Path,
    check: list[str],
) -> None:
    """Say what was chosen, and what comes next; `check` runs the app on the deployment."""
    connection = quote(check[3])
    if rows.made_up:
        print_note(
            f"{rows.place} has no rows: public.csv and the reference are made up, even over what "
            "it lists, and show that checks run. Clients make the real reference."
        )
    else:
        print_note(
            f"{rows.place} is taken to be public: some of its values are edges and labels that "
            "clients and server see."
        )
    _print_columns(rows)
    if not rows.made_up:
        print_note(f"reference: {in_words(rows.reference, rows_of_columns(rows.reference))}")
    print_note(f"what each column is, and how files are written: {table}")
    if proposal.size is not None:
        print_note(f"each check asks {proposal.size} of {proposal.clients:,} clients, in rotation")
    elif proposal.is_standing:
        print_note(
            f"each check asks all {proposal.clients} clients for all their rows: {proposal.nights} "
            "checks are one standing session, which is charged once"
        )
    elif proposal.period is not None:
        print_note(
            f"each check asks all {proposal.clients} clients for the rows of its period, and is "
            "charged by itself"
        )
    elif proposal.checks > 1:
        print_note(
            f"each check asks all {proposal.clients} clients and is charged by itself: with a "
            "column that identifies a row permanently (--id), the checks of a year are one charge"
        )
    if "drift-nodes" in " ".join(check):
        there = f"{proposal.nodes} nodes are connected, as some may be away"
        print_note(f"each check of the deployment waits until {there}")
    if proposal.aggregators:
        print_note(
            "no party sees a node's counts: clients need a signing key and a roster, and two nodes "
            "are aggregators: docs/trust.md; simulated checks trust the server"
        )
    print_note(f"budget: {proposal.pace}; {yearly:,} checks a year")
    made = quote(str(table.with_name("reference.json")))
    real = join(check[check.index("--run-config") :])
    by_clients = (
        f"flwr-kld describe {quote(str(folder))} {connection} --reference {made} {real} "
        f"--ledger {quote(ledger)} --key first",
        "once, on the deployment, for half of the budget; later checks compare with it",
    )
    results.print("next:", markup=False)
    for command, why in (
        (
            f"cd {quote(str(folder))} && flwr run . --stream",
            "a check of two simulated nodes, which share out the sample: node i of n has the rows "
            "i, n + i, 2n + i, …",
        ),
        (
            f"flwr-kld report --ledger {quote(ledger)} --population {SIMULATED}",
            "simulated checks so far; with FILE.html, a page of them",
        ),
        (
            f"flwr-kld doctor --data /srv/records.csv --table {quote(str(table))}",
            "on a node, for its operator's eyes alone: what of its records would be 'other' or "
            "'missing'",
        ),
        (
            f"{join(['flwr-kld', 'doctor', *check[2:4]])} {real}",
            "before the first check of a deployment",
        ),
        *([by_clients] if rows.made_up else []),
        (join(check), "a check of the deployment, whose nodes have records of their own"),
    ):
        results.print(f"  {command}\n      {why}", markup=False, soft_wrap=True)
