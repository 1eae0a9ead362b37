"""``flwr-kld init --into``: few lines more, shown first, and training as it was to the bit."""

from __future__ import annotations

import difflib
import re
import shlex
import shutil
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace

import pytest
from cli.apps import ANALYTICS, TRAINING, write_app
from flwr.app import Context, RecordDict
from recipes import ROOT, blocks_of

from flwr_kld.ledger import Budget, Kind, Ledger
from flwr_kld.report import Outcome
from flwr_kld.report.entries import report_of
from flwr_kld.report.stored_reference import stored_reference
from flwr_kld.simulations import InProcessGrid

MOST_CHANGED = 20
APPS = {"sklearnexample": TRAINING, "federatedanalytics": ANALYTICS}


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    rows = (f"{20 + i % 40},{'clerk' if i % 3 else 'nurse'}" for i in range(1200))
    file = tmp_path / "sample.csv"
    file.write_text("\n".join(["age,job", *rows]))
    return file


def texts(app: Path) -> dict[str, str]:
    files = (*app.rglob("*.py"), app / "pyproject.toml")
    return {str(file.relative_to(app)): file.read_bytes().decode() for file in files}


def changed_lines(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Lines of files that were there which are now others."""
    found = []
    for name, text in before.items():
        diff = difflib.ndiff(text.splitlines(), after[name].splitlines())
        found += [line for line in diff if line[:1] in "+-" and line[2:].strip()]
    return found


def results(printed: str) -> list[str]:
    return re.findall(r"^(?:RESULT|LOSSES|NORMS) .*$", printed, re.MULTILINE)


def run(app: Path, name: str, **overrides: str) -> None:
    """Run an app on two nodes that are simulated, as Ray's are; it prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(app)
        server, client = (import_module(f"{name}.{side}_app").app for side in ("server", "client"))
    for module in [module for module in sys.modules if module.split(".")[0] == name]:
        del sys.modules[module]
    project = tomllib.loads((app / "pyproject.toml").read_text())
    config = {**project["tool"]["flwr"]["app"]["config"], **overrides}
    grid = InProcessGrid(client, 2)
    grid.set_run_config(config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
        server(grid, Context(1, 1, {}, RecordDict(), config))


@pytest.mark.parametrize("name", APPS)
def test_an_app_gets_checks_and_does_what_it_did_to_the_bit(cli, sample, tmp_path, name, capsys):
    plain = write_app(tmp_path / name, name, APPS[name])
    checked = shutil.copytree(plain, tmp_path / f"{name}-checked")
    done = cli("init", sample, "--into", checked, "--yes")
    assert done.exit_code == 0, done.output
    changed = changed_lines(texts(plain), texts(checked))
    assert not [line for line in changed if line.startswith("-")]
    assert len(changed) <= MOST_CHANGED, changed
    printed = []
    for app in (plain, checked):
        run(app, name)
        printed.append(results(capsys.readouterr().out))
    assert printed[0] == printed[1] != []
    (entry,) = Ledger(f"sqlite:///{checked / 'drift.db'}").history("simulated")
    report = report_of(entry)
    assert report is not None, entry
    assert report.outcome is not Outcome.DRIFT
    assert report.cohort.survivors == 2


@pytest.mark.parametrize("name", APPS)
def test_without_public_rows_an_apps_clients_make_the_reference(cli, tmp_path, name, capsys):
    app = write_app(tmp_path / name, name, APPS[name])
    server = app / name / "server_app.py"
    server.write_text(re.sub(r"\bgrid\b(?!=)", "key", server.read_text()))  # names of its own
    (tmp_path / "visits.toml").write_text(
        '[columns.age]\nkind = "binned"\nedges = [30, 45]\n'
        '[columns.ward]\nkind = "labels"\nnames = ["icu", "surgery"]\n'
    )
    done = cli("init", tmp_path / "visits.toml", "--into", app, "--yes")
    assert done.exit_code == 0, done.output
    (command,) = (line for line in done.stdout.splitlines() if "flwr-kld describe" in line)
    file = Path(shlex.split(command)[shlex.split(command).index("--reference") + 1])
    run(app, name, **{"drift-statistics": "first"})
    assert bool(results(capsys.readouterr().out)) == (name == "federatedanalytics")
    ledger = Ledger(f"sqlite:///{app / 'drift.db'}")
    made = stored_reference(ledger, "first", population="simulated")
    made.save(file)
    run(app, name)
    assert results(capsys.readouterr().out)
    first, second = ledger.history("simulated")
    assert (first.kind, second.kind) == (Kind.STATISTICS, Kind.CHECK)
    assert report_of(second).compared.reference == made.fingerprint


def test_the_lines_of_the_page_check_what_simulated_nodes_have(cli, sample, tmp_path):
    """By hand, with a function of the app's own, beside what `init --out` wrote."""
    files = {name: text.replace("sklearnexample", "app") for name, text in TRAINING.items()}
    package = write_app(tmp_path / "app", "app", files) / "app"
    assert cli("init", sample, "--out", tmp_path / "made").exit_code == 0
    for name in ("drift.py", "table.toml", "reference.json"):
        shutil.copy(tmp_path / "made" / "made" / name, package)
    lines = {
        block.name: block.text
        for block in blocks_of(ROOT / "docs" / "quickstart" / "table.md")
        if block.tag == "lines"
    }
    rows = "def load_rows(i, n):\n    return {'age': [30] * 500, 'job': ['nurse'] * 500}\n"
    with (package / "client_app.py").open("a") as client:
        client.write(rows + lines["client"].replace("load_data", "load_rows"))
    url = f"sqlite:///{tmp_path / 'own.db'}"
    Ledger(url).set_budget(Budget(1.0, 1e-6, window_days=30))
    own = lines["server"].replace("sqlite:////srv/drift.db", url).replace("every=5", "every=2")
    imports, _, monitor = own.partition("\n\n")
    server, start = package / "server_app.py", "    result = strategy.start("
    code = server.read_text().replace(start, indent(monitor, "    ") + start)
    server.write_text(code.replace("\nfrom flwr.app", f"\n{imports}\nfrom flwr.app", 1))
    run(tmp_path / "app", "app")
    (entry,) = Ledger(url).history()
    report = report_of(entry)
    assert report is not None, entry
    assert (report.outcome, report.reading.records) == (Outcome.DRIFT, 1000)


def test_the_diff_is_shown_and_asked_for(cli, sample, tmp_path):
    app = write_app(tmp_path / "app", "sklearnexample", TRAINING)
    before = texts(app)
    done = cli("init", sample, "--into", app)  # standard input is empty
    assert done.exit_code == 4
    assert "nothing was changed: give --yes" in done.stderr
    assert texts(app) == before
    assert "+    strategy = WithDriftChecks(strategy, monitor, every=num_rounds)" in done.stdout
    assert "+drift-sample" in done.stdout
    assert "write this?" in done.stdout
    assert not (app / "drift.db").exists()


def test_what_has_checks_gets_no_second_ones(cli, sample, tmp_path):
    app = write_app(tmp_path / "app", "sklearnexample", TRAINING)
    assert cli("init", sample, "--into", app, "--yes").exit_code == 0
    before = texts(app)
    again = cli("init", sample, "--into", app, "--yes")
    assert again.exit_code == 4
    assert "already has drift checks: flwr-kld doctor" in again.stderr
    assert texts(app) == before


def test_names_and_line_ends_of_the_app_are_kept(cli, sample, tmp_path):
    taken = TRAINING["server_app"].replace("    # Read run config", "    monitor = simulated = 1")
    files = {**TRAINING, "server_app": taken}
    app = write_app(tmp_path / "app", "sklearnexample", files)
    client = app / "sklearnexample" / "client_app.py"
    own = client.read_bytes() + b"\nreference = 'of its own'\n"
    client.write_bytes(own.replace(b"\n", b"\r\n"))
    before = texts(app)
    assert cli("init", sample, "--into", app, "--yes", "--id", "job").exit_code == 0
    after = texts(app)
    call = after["sklearnexample/client_app.py"].split("answer_drift_queries(")[1]
    assert set(re.findall(r"(?<!=)\b\w*reference\b(?!=)", call)) == {"drift_reference"}
    assert "drift_monitor = KLDrift(" in after["sklearnexample/server_app.py"]
    assert "WithDriftChecks(strategy, drift_monitor, " in after["sklearnexample/server_app.py"]
    assert after["sklearnexample/client_app.py"].count("\r\n") == (
        after["sklearnexample/client_app.py"].count("\n")
    )
    assert not [line for line in changed_lines(before, after) if line.startswith("-")]


def test_an_app_whose_run_is_a_check_gets_a_schedule(cli, sample, tmp_path):
    app = write_app(tmp_path / "app", "federatedanalytics", ANALYTICS)
    typed = ("init", sample, "--into", app, "--schedule", "30 2 * * 1")
    shown = cli(*typed)
    assert shown.exit_code == 4
    assert not (app / "deploy").exists()
    assert cli(*typed, "--yes").exit_code == 0
    assert "+++ b/deploy/kld.cron" in shown.stdout
    assert "waits until" not in shown.stderr  # it has no name for that
    (file,) = (app / "deploy").iterdir()
    text = file.read_text()
    assert f"flwr-kld check {app} prod --schedule '30 2 * * 1'" in text
    assert "--run-config 'drift-sample=\"\"'" in text  # it declares no other name of ours


@pytest.mark.parametrize(
    "name", ["deploy/kld.cron", "PACKAGE/table.toml", "PACKAGE/reference.json", "public.csv"]
)
def test_a_file_that_is_there_is_not_written_over(cli, sample, tmp_path, name):
    app = write_app(tmp_path / "app", "federatedanalytics", ANALYTICS)
    (app / "deploy").mkdir()
    file = app / name.replace("PACKAGE", "federatedanalytics")
    file.write_text("mine")
    before = texts(app)
    if name == "public.csv":  # which is made up where no rows are public
        sample = tmp_path / "visits.toml"
        sample.write_text('[columns.ward]\nkind = "labels"\nnames = ["icu"]\n')
    done = cli("init", sample, "--into", app, "--yes")
    assert done.exit_code == 4
    assert f"{file.name} exists already" in done.stderr.replace("\n", "")
    assert (texts(app), file.read_text()) == (before, "mine")


def test_checks_of_an_app_that_trains_come_with_training(cli, sample, tmp_path):
    app = write_app(tmp_path / "app", "sklearnexample", TRAINING)
    done = cli("init", sample, "--into", app, "--yes")
    assert "--schedule" in done.stderr
    deployment = [shlex.split(line) for line in done.stdout.splitlines() if "flwr run" in line][-1]
    assert deployment[:4] == ["flwr", "run", str(app), "prod"]
    assert 'drift-sample=""' in deployment
    assert not (app / "deploy").exists()


def test_an_app_that_trains_is_not_run_for_one_check(cli, sample, tmp_path, flwr):
    app = write_app(tmp_path / "app", "sklearnexample", TRAINING)
    ledger = f"sqlite:///{tmp_path / 'drift.db'}"
    assert cli("init", sample, "--into", app, "--yes", "--ledger", ledger).exit_code == 0
    assert "drift-check" not in (app / "pyproject.toml").read_text()
    checked = cli("doctor", app, "--ledger", ledger)
    assert re.search(r"^ok +app", checked.stdout, re.MULTILINE), checked.output
    done = cli("check", app, "--ledger", ledger, "--key", "a")
    assert (done.exit_code, flwr.calls) == (4, [])
    assert f"flwr run {app}" in " ".join(done.output.split())


SERVER, CLIENT = "sklearnexample/server_app.py", "sklearnexample/client_app.py"
ODD = {
    "no package": ("pyproject.toml", "sklearnexample.client_app:app", "client_app:app"),
    "no component": ("pyproject.toml", 'clientapp = "sklearnexample.client_app:app"', ""),
    "no Flower": ("pyproject.toml", "[tool.flwr.app.components]", "[tool.other]"),
    "no TOML": ("pyproject.toml", "[project]", "[project"),
    "an inline config": (
        "pyproject.toml", "[tool.flwr.app.config]\nnum-server-rounds = 2",
        "[tool.flwr]\napp.config.num-server-rounds = 2",
    ),
    "another name": (CLIENT, "app = ClientApp()", "client = ClientApp()\napp = client"),
    "the older client API": (CLIENT, "ClientApp()", "ClientApp(client_fn=print)"),
    "the older server API": (SERVER, "@app.main()", "@app.lifespan()"),
    "two strategies": (SERVER, "    print(\"RES", "    strategy.start(grid=grid)\n    print(\"RES"),
    "an unnamed strategy": (SERVER, "strategy.start(", "FedAvg().start("),
    "no Python": (SERVER, "def main", "def main main"),
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_other_layouts_are_refused_untouched_with_what_to_do(cli, sample, tmp_path, odd):
    app = write_app(tmp_path / "app", "sklearnexample", TRAINING)
    name, old, new = ODD[odd]
    (app / "client_app.py").write_text((app / CLIENT).read_text())
    text = (app / name).read_text()
    assert old in text
    (app / name).write_text(text.replace(old, new))
    before = texts(app)
    done = cli("init", sample, "--into", app, "--yes")
    assert done.exit_code == 4, done.output
    assert "Traceback" not in done.stderr
    assert re.search("by hand|flwr-kld init|correct it|not a valid TOML", done.stderr), done.stderr
    assert texts(app) == before
