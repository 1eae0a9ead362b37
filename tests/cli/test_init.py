"""``flwr-kld init``: apps as a team would write them, whatever the sample's columns are called."""

from __future__ import annotations

import ast
import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest
from recipes import ROOT
from sqlalchemy import make_url

from flwr_kld import Reference, Table
from flwr_kld.ask.partition import plan_to_pin
from flwr_kld.guard.limits import read_limits
from flwr_kld.ledger import Ledger
from flwr_kld.trust.sealing import AggregatorKey

HOSTILE = [
    '"""', "'''", "a'b\"c", "$package", "${ledger}", "{x}", "%s", "\\", "import os", "../../etc",
    "</script>", "ä 日本 🦆", "[bold]", "class", "a,b", " × ", "--out", "x" * 300, "a\tb",
]  # fmt: skip
"""Names that would break code, paths, TOML, templates or markup if they came there."""


def write(file: Path, names: list[str], rows: int = 60) -> Path:
    columns = {name: [(i * (j + 3)) % 37 for i in range(rows)] for j, name in enumerate(names)}
    pl.DataFrame(columns).write_csv(file)
    return file


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    return write(tmp_path / "sample.csv", ["age", "job"])


def made(app: Path) -> dict[str, str]:
    files = [file for file in app.rglob("*") if file.is_file() and file.suffix != ".db"]
    return {str(f.relative_to(app)): f.read_text() for f in files if "drift.db" not in f.name}


KEYS = [AggregatorKey.generate().public.hex() for _ in range(2)]
NOBODY = ["--trust", "two-aggregators", *(word for key in KEYS for word in ("--aggregator", key))]


def require_formatted(folder: Path) -> None:
    ruff = [
        Path(sys.executable).with_name("ruff"),
        "check",
        "--isolated",
        "--select",
        "E,F,W,B,UP,D1",
    ]
    options = ["--ignore", "D103,D104", "--line-length", "100", folder]
    assert subprocess.run([*ruff, *options], check=False, stdout=subprocess.DEVNULL).returncode == 0
    shape = [ruff[0], "format", "--isolated", "--check", "--line-length", "100", folder]
    assert subprocess.run(shape, check=False, stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize(("at", "apart"), [("0 3 * * *", 1), ("0 3 * * 1", 7), ("0 3 1 * *", 31)])
def test_a_session_lasts_until_its_last_check(cli, sample, tmp_path, at, apart):
    app = tmp_path / "app"
    done = cli("init", sample, "--out", app, "--id", "job", "--column", "age", "--schedule", at)
    assert done.exit_code == 0, done.output
    tree = ast.parse((app / "app" / "server_app.py").read_text())
    (session,) = (
        one
        for one in ast.walk(tree)
        if isinstance(one, ast.Call) and "Standing" in ast.dump(one.func)
    )
    given = {one.arg: one.value.value for one in session.keywords if one.arg in ("nights", "days")}
    assert (given["nights"] - 1) * apart < given["days"]
    assert given["days"] <= 366


def test_a_session_has_no_more_checks_than_it_may(cli, sample, tmp_path):
    done = cli("init", sample, "--out", tmp_path / "app", "--id", "job", "--schedule", "0 * * * *")
    assert done.exit_code == 4
    assert "8,737 checks a year" in done.stderr
    assert not (tmp_path / "app").exists()


def test_an_app_is_short_formatted_and_explains_itself(cli, sample, tmp_path):
    done = cli("init", sample, "--out", tmp_path / "app")
    assert done.exit_code == 0, done.output
    files = made(tmp_path / "app")
    code = "".join(text for name, text in files.items() if name.endswith(".py"))
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 40
    require_formatted(tmp_path / "app")
    assert "is taken to be public" in done.stderr
    assert "2 checks in any 30 days, each person charged for 2 of them" in done.stderr
    assert "flwr run . --stream" in done.stdout
    assert "two simulated nodes, which share out the sample" in done.stdout


def test_the_files_fit_together(cli, sample, tmp_path):
    cli("init", sample, "--out", tmp_path / "app")
    app = tmp_path / "app"
    reference = Reference.load(app / "app" / "reference.json")
    limits = read_limits(app / "deploy" / "guard.toml")
    assert limits.allow.plans == {plan_to_pin(reference)}
    assert limits.allow.domains == {reference.domain.fingerprint}
    project = tomllib.loads((app / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    assert config["drift-sample"] == str(sample)
    ledger = Ledger(config["drift-ledger"])
    assert ledger.budget().epsilon == 1
    assert ledger.budget("simulated").epsilon == 1000


@pytest.mark.parametrize("options", [[], ["--id", "age"], ["--clients", 10_000]])
def test_an_app_in_which_nobody_sees_a_nodes_data(cli, sample, tmp_path, options):
    done = cli("init", sample, "--out", tmp_path / "app", *NOBODY, *options)
    assert done.exit_code == 0, done.output
    files = made(tmp_path / "app")
    if "--id" not in options:  # whose name is quoted as Python does
        require_formatted(tmp_path / "app")
    assert all(f'bytes.fromhex("{key}")' in files["app/drift.py"] for key in KEYS)
    assert "aggregate_drift_checks(app)" in files["app/client_app.py"]
    assert "if simulated" in files["app/server_app.py"]
    assert "TwoAggregators(" in files["app/server_app.py"]
    assert "Rotating" not in files["app/server_app.py"]
    limits = read_limits(tmp_path / "app" / "deploy" / "guard.toml")
    assert limits.allow.trust == {"two-aggregators"}
    assert "docs/trust.md" in done.stderr
    assert cli("doctor", tmp_path / "app").exit_code == 0


def test_clients_make_the_reference_of_such_an_app_likewise(cli, sample, tmp_path):
    cli("init", sample, "--out", tmp_path / "first")
    dictionary = tmp_path / "first" / "first" / "table.toml"
    done = cli("init", dictionary, "--out", tmp_path / "app", *NOBODY)
    assert done.exit_code == 0, done.output
    require_formatted(tmp_path / "app")
    assert made(tmp_path / "app")["app/server_app.py"].count("TwoAggregators(") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (NOBODY[:2], "--aggregator PUBLIC twice"),
        (NOBODY[:4], "--aggregator PUBLIC twice"),
        ([*NOBODY[:4], "--aggregator", KEYS[0]], "two different keys"),
        ([*NOBODY[:4], "--aggregator", "key"], "--aggregator PUBLIC twice"),
        ([*NOBODY, "--period", "age", "--id", "job"], "neither --period nor --into"),
    ],
)  # fmt: skip
def test_two_aggregators_need_two_keys(cli, sample, tmp_path, options, words):
    done = cli("init", sample, "--out", tmp_path / "app", *options)
    assert done.exit_code == 4
    assert words in done.stderr
    assert not (tmp_path / "app").exists()


@pytest.mark.parametrize(
    ("clients", "cohort", "smallest", "times"),
    [
        (4, "UniformCohort()", 3, "2 of them × ε 0.5 = 1"),
        (50, "UniformCohort()", 38, "2 of them × ε 0.5 = 1"),
        (3, "UniformCohort()", 3, "2 of them × ε 0.5 = 1"),
        (10_000, "RotatingCohort(322)", 242, "1 of them × ε 1 = 1"),
    ],
)  # fmt: skip
def test_budgets_hold_for_few_clients_and_for_many(
    cli, sample, tmp_path, clients, cohort, smallest, times
):
    done = cli("init", sample, "--out", tmp_path / "app", "--clients", clients)
    assert f"each person charged for {times}; the budget has 1" in done.stderr
    assert cohort in (tmp_path / "app" / "app" / "server_app.py").read_text()
    assert read_limits(tmp_path / "app" / "deploy" / "guard.toml").check.min_asked == smallest
    waits = smallest if cohort == "UniformCohort()" else 322
    assert f" drift-nodes={waits}'" in (tmp_path / "app" / "deploy" / "kld.cron").read_text()


def test_hostile_names_of_columns_stay_data(cli, tmp_path):
    write(tmp_path / "sample.csv", HOSTILE)
    done = cli("init", tmp_path / "sample.csv", "--out", tmp_path / "app", "--id", HOSTILE[0])
    assert done.exit_code == 0, done.output
    files = made(tmp_path / "app")
    for name, text in files.items():
        if name.endswith(".py"):
            ast.parse(text)
    tomllib.loads(files["pyproject.toml"])
    reference = Reference.load(tmp_path / "app" / "app" / "reference.json")
    assert set(HOSTILE[1:]) == set(reference.columns)
    assert repr(HOSTILE[0]) in files["app/client_app.py"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty"),
        ("age,job\n", "it has no values"),
        ("age,job\n30,nurse\n", "no column of the frame is left"),
        ("age,age\n30,nurse\n", "two columns have the name 'age'"),
        ("age,\n30,nurse\n31,clerk\n", "a column without a name"),
        ("age,job\n30\n", "line 2 has 1 fields"),
        ("age\n" + "x" * 200_000, "no column of the frame is left"),
    ],
)
def test_a_sample_that_does_not_serve_is_refused_and_nothing_is_written(
    cli, tmp_path, content, words
):
    (tmp_path / "sample.csv").write_bytes(content.encode("latin-1"))
    done = cli("init", tmp_path / "sample.csv", "--out", tmp_path / "app")
    assert done.exit_code == 4
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "app").exists()


def test_nothing_of_anybodys_is_written_over(cli, sample, tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "mine.txt").write_text("mine")
    done = cli("init", sample, "--out", tmp_path / "app")
    assert done.exit_code == 4
    assert "exists: give another --out, or add checks to the app in it with --into" in done.stderr
    assert made(tmp_path / "app") == {"mine.txt": "mine"}


def test_of_an_app_that_could_not_be_finished_nothing_is_left(cli, sample, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Reference, "save", full)
        done = cli("init", sample, "--out", tmp_path / "app")
    assert "free some, and run the same command again" in done.stderr
    assert not (tmp_path / "app").exists()
    assert cli("init", sample, "--out", tmp_path / "app").exit_code == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_said(cli, sample, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    done = cli("init", sample, "--out", tmp_path / "closed" / "app")
    assert done.exit_code == 4
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize(
    "name", ["numpy", "json", "class", "a_b", "1st", "x" * 33, "flwr-kld", "ä"]
)
def test_names_that_flower_or_python_do_not_take_are_refused(cli, sample, tmp_path, name):
    done = cli("init", sample, "--out", tmp_path / name)
    assert done.exit_code == 4
    assert "another --out" in done.stderr or "give --out" in done.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("ledger", ["drift.db", "sqlite:////nowhere/drift.db", "sqlite://"])
def test_a_ledger_that_cannot_be_opened_is_refused_before_anything_is_written(
    cli, sample, tmp_path, ledger
):
    assert cli("init", sample, "--out", tmp_path / "app", "--ledger", ledger).exit_code == 4
    assert not (tmp_path / "app").exists()


def test_a_ledger_named_from_here_is_the_same_file_to_superlink_and_cron(
    cli, sample, tmp_path, here
):
    assert cli("init", sample, "--out", "app", "--ledger", "sqlite:///own.db").exit_code == 0
    config = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    url = f"sqlite:///{tmp_path / 'own.db'}"
    assert config["tool"]["flwr"]["app"]["config"]["drift-ledger"] == url
    assert f"FLWR_KLD_LEDGER={url}\n" in (tmp_path / "app" / "deploy" / "kld.cron").read_text()


NAMES = ["a?b", *(["a%20b"] if make_url("sqlite:///a%20b").database == "a b" else [])]
"""Folders that a URL does not name as they are; SQLAlchemy 2.0 leaves percent signs alone."""


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_whose_url_names_another_is_refused(cli, sample, tmp_path, name):
    done = cli("init", sample, "--out", tmp_path / name / "app")
    assert done.exit_code == 4
    assert "--ledger" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["sample.csv"]


def test_the_commands_that_come_next_can_be_pasted(cli, sample, tmp_path):
    app = tmp_path / "my apps" / "app"
    done = cli("init", sample, "--out", app)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    cd, report = (next(line for line in lines if word in line) for word in ("cd ", "kld report"))
    assert shlex.split(cd)[1] == str(app)
    assert f"sqlite:///{app / 'drift.db'}" in shlex.split(report)


def test_cron_runs_the_one_command(cli, sample, tmp_path):
    app = tmp_path / "my-app"
    done = cli("init", sample, "--out", app, "--schedule", "30 2 * * 1")
    assert done.exit_code == 0, done.output
    assert {f.name for f in (app / "deploy").iterdir()} == {"kld.cron", "guard.toml"}
    text = (app / "deploy" / "kld.cron").read_text()
    assert f"flwr-kld check {app} prod --schedule '30 2 * * 1'" in text
    assert "--run-config 'drift-sample=\"\" drift-nodes=3'" in text


def test_signs_of_currency_and_percent_are_said(cli, tmp_path, here):
    rows = (f"{i % 7}.5 %;{i}.234,50 {'€' if i % 2 else '$'};{i % 5}" for i in range(1, 60))
    (tmp_path / "sample.csv").write_text(
        "\n".join(["rate;cost;plain", *rows]).replace(".5 ", ",5 ")
    )
    done = cli("init", "sample.csv")
    assert done.exit_code == 0, done.output
    assert "rate: numbers are read without %\n" in done.stderr
    assert "cost: numbers are read without $ and €; values with different signs" in done.stderr
    assert "plain: numbers are read without" not in done.stderr
    assert Table.from_toml("table.toml").features["cost"].edges[0] > 1234


def test_the_data_dictionary_is_written_first_and_the_app_made_of_what_became_of_it(
    cli, sample, tmp_path, here
):
    done = cli("init", sample, "--threshold", 0.2)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "table.toml").read_text()
    assert "threshold = 0.2" in text
    edited = text.replace(
        "[columns.age]", '[columns.age]\nunit = "years"\nthreshold = 0.05\nmissing = ["36"]'
    )
    (tmp_path / "table.toml").write_text(edited)
    again = cli("init", sample)
    assert again.exit_code == 4
    assert (tmp_path / "table.toml").read_text() == edited
    done = cli("init", sample, "--table", "table.toml", "--out", tmp_path / "app")
    assert done.exit_code == 0, done.output
    reference = Reference.load(tmp_path / "app" / "app" / "reference.json")
    assert reference.domain == Table.from_toml(tmp_path / "table.toml")
    assert reference.domain.thresholds == {"age": 0.05, "job": 0.2}
    assert reference.domain.units == {"age": "years"}
    assert reference.columns["age"].unlisted["missing"] > 0


def test_the_app_says_so_when_table_and_reference_do_not_fit(cli, sample, tmp_path):
    cli("init", sample, "--out", tmp_path / "app")
    package = tmp_path / "app" / "app"
    text = (package / "table.toml").read_text()
    load = [sys.executable, "-c", "from app.drift import reference; print(reference.domain.units)"]
    told = text.replace("[columns.age]", '[columns.age]\nunit = "years"')
    (package / "table.toml").write_text(told)
    run = subprocess.run(load, cwd=tmp_path / "app", capture_output=True, text=True, check=True)
    assert "years" in run.stdout
    (package / "table.toml").write_text(told.replace("[columns.job]", "[columns.jobs]"))
    run = subprocess.run(load, cwd=tmp_path / "app", capture_output=True, text=True, check=False)
    assert "'jobs'" in run.stderr
    assert "reference build" in run.stderr
    assert "'jobs'" in cli("doctor", tmp_path / "app").stdout.replace("\n", "")
    built = cli(
        "reference", "build", sample, "--table", package / "table.toml", "--out",
        package / "reference.json",
    )  # fmt: skip
    assert built.exit_code == 4  # the sample has no such column
    (package / "table.toml").write_text(told.replace("edges = [", "edges = [-1.0, ", 1))
    built = cli(
        "reference", "build", sample, "--table", package / "table.toml", "--out",
        package / "reference.json",
    )  # fmt: skip
    assert built.exit_code == 0, built.output
    subprocess.run(load, cwd=tmp_path / "app", capture_output=True, check=True)


def test_a_table_leaves_no_columns_to_choose(cli, sample, tmp_path, here):
    cli("init", sample, "--column", "job")
    made_of = ["init", sample, "--table", "table.toml", "--out", tmp_path / "app"]
    for chosen in (("--column", "age"), ("--bins", 5), ("--labels", 3)):
        done = cli(*made_of, *chosen)
        assert done.exit_code == 4
        assert "are for a dictionary that init makes" in done.stderr
    done = cli(*made_of, "--id", "age")  # which the table need not have
    assert done.exit_code == 0, done.output
    assert "['age']" in (tmp_path / "app" / "app" / "client_app.py").read_text()


def test_a_budget_in_force_stays(cli, sample, tmp_path):
    url = f"sqlite:///{tmp_path / 'own.db'}"
    cli("budget", "--ledger", url, "--set", 3)
    done = cli("init", sample, "--out", tmp_path / "app", "--ledger", url)
    assert done.exit_code == 0, done.output
    assert Ledger(url).budget().epsilon == 3
    config = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert json.dumps(url) in (tmp_path / "app" / "pyproject.toml").read_text()
    assert config["tool"]["flwr"]["app"]["config"]["drift-ledger"] == url


def test_the_template_is_the_example_itself(cli, tmp_path):
    example = ROOT / "examples" / "federated-analytics"
    done = cli("init", "--template", "federated-analytics", "--out", tmp_path / "app")
    assert done.exit_code == 0, done.output
    tracked = ["git", "ls-files"] if (ROOT / ".git").exists() else ["find", ".", "-type", "f"]
    names = subprocess.run(tracked, cwd=example, capture_output=True, text=True, check=True)
    expected = {name: (example / name).read_text() for name in names.stdout.split()}
    assert made(tmp_path / "app") == expected
    again = cli("init", "--template", "federated-analytics", "--out", tmp_path / "app")
    assert again.exit_code == 4


@pytest.mark.parametrize("options", [[], ["--epsilon", "2", "--out", "app"], ["sample.csv"]])
def test_a_template_goes_with_a_new_folder_alone(cli, options):
    assert cli("init", "--template", "federated-analytics", *options).exit_code == 4


def test_the_ledger_adds_up_as_the_drafted_guard_does(cli, sample, tmp_path):
    assert cli("init", sample, "--out", tmp_path / "app").exit_code == 0
    budget = Ledger(f"sqlite:///{tmp_path / 'app' / 'drift.db'}").budget()
    limits = read_limits(tmp_path / "app" / "deploy" / "guard.toml")
    assert budget.composition == "sum"
    assert budget.epsilon == pytest.approx(float(limits.period.max_epsilon))


def test_cron_finds_the_command_and_the_connection(cli, sample, tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "of Flower"))
    assert cli("init", sample, "--out", tmp_path / "app").exit_code == 0
    lines = (tmp_path / "app" / "deploy" / "kld.cron").read_text().splitlines()
    (path,) = (line.removeprefix("PATH=") for line in lines if line.startswith("PATH="))
    assert shutil.which("flwr-kld", path=path)
    assert f"FLWR_HOME={tmp_path / 'of Flower'}" in lines
