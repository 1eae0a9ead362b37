"""What ships: one wheel, the four folders under one name, and a science that knows no Flower."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from fresh_install import UV, copied_source

from flwr_kld.ledger import Ledger

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {"flwr_kld", "drift_app", "analytics"}  # the package, and the apps that it writes
DISTRIBUTIONS = packages_distributions()


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel, installed by itself into an empty folder."""
    source = copied_source(tmp_path_factory.mktemp("source"))
    target = tmp_path_factory.mktemp("installed")
    python = sys.executable
    install = [UV, "pip", "install", "--python", python]  # as in the Makefile: pip takes longer
    if not UV.exists():
        install = [python, "-m", "pip", "install"]
    command = [*install, "--quiet", "--no-deps", "--target", target, source]
    subprocess.run(command, check=True, cwd=target)
    return target


STAGES = """
import importlib, json, os, pathlib, sys

def stage(name):
    print(json.dumps([name, sorted(sys.modules)]), flush=True)

if os.fork():  # two processes, as what Flower loads cannot be unloaded
    os.wait()
    import flwr.app, flwr.clientapp  # they load flwr.serverapp by themselves
    stage("flower's client side")
    from flwr_kld.clients import *
    stage("clients")
    from flwr_kld.strategies import *
    stage("strategies")
    import flwr_kld.clients.handwriting, flwr_kld.simulations
    places = [flwr_kld.strategies.__file__, str(flwr_kld.simulations.APP)]
    print(json.dumps(["places", places]))
else:
    from flwr_kld.ledger import Ledger
    Ledger(URL)
    stage("ledger")
    import flwr_kld.cli.app
    stage("command line")
    for path in pathlib.Path("flwr_kld").rglob("*.py"):
        parts = path.with_suffix("").parts
        if parts[1] not in ("strategies", "clients", "simulations"):
            importlib.import_module(".".join(parts).removesuffix(".__init__"))
    stage("science")
"""


@pytest.fixture(scope="module")
def loaded(installed) -> dict[str, set[str]]:
    """Modules that are loaded after each stage, by a process that sees the wheel only."""
    url = f"sqlite:///{installed}/drift.db"
    Ledger(url)
    wheel_only = (
        "import sys\n"
        f"sys.path.insert(0, {str(installed)!r})\n"
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
        f"URL = {url!r}\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", wheel_only + STAGES],
        check=True, capture_output=True, text=True, cwd=installed,
    )  # fmt: skip
    return {name: set(found) for name, found in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def imported(installed) -> list[tuple[Path, str, str | None]]:
    """The imports of every shipped module, lazy ones too, and the extra of optional ones."""
    return list(imports(installed))


def packages(modules: set[str]) -> set[str]:
    return {name.split(".")[0] for name in modules}


def test_the_wheel_has_everything_under_one_name(installed, loaded):
    app = installed / "flwr_kld/simulations/drift_app"
    assert loaded["places"] == {str(installed / "flwr_kld/strategies/__init__.py"), str(app)}
    assert (app / "pyproject.toml").exists()
    assert (installed / "flwr_kld/py.typed").exists()
    (info,) = installed.glob("*.dist-info")
    files = [line.split(",")[0] for line in (info / "RECORD").read_text().splitlines()]
    top = {file.split("/")[0] for file in files if not file.endswith("bin/flwr-kld")}
    assert top == {"flwr_kld", info.name}


def test_studies_and_benchmarks_are_beside_the_wheel(installed):
    shipped = {
        path.name for path in (installed / "flwr_kld/simulations").iterdir() if path.is_dir()
    }
    assert {"bench", "studies"} <= {path.name for path in (ROOT / "simulations").iterdir()}
    assert shipped - {"__pycache__"} == {"analytics_app", "drift_app", "handwriting"}


def test_shipped_modules_import_shipped_modules_only(installed, imported):
    for path, module, extra in imported:
        if module.startswith("flwr_kld") and extra is None:
            target = installed.joinpath(*module.split("."))
            assert target.is_dir() or target.with_suffix(".py").exists(), (path.name, module)


def test_everything_imported_is_declared(imported):
    """At the package's own dependencies, or at the extra that `require` names to the user."""
    extras = PROJECT["optional-dependencies"]
    for path, module, extra in imported:
        name = module.split(".")[0]
        if name in sys.stdlib_module_names | OWN:
            continue
        declared = PROJECT["dependencies"] if extra is None else extras[extra]
        assert distributions(name) & set(map(named, declared)), (path.name, name, extra)


def test_every_dependency_is_imported(imported):
    plain = {module.split(".")[0] for _, module, extra in imported if extra is None}
    others = plain - sys.stdlib_module_names - OWN
    found = set().union(*map(distributions, others))
    assert set(map(named, PROJECT["dependencies"])) <= found


def imports(installed: Path) -> Iterator[tuple[Path, str, str | None]]:
    for path in (installed / "flwr_kld").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield path, str(node.module), None
            elif isinstance(node, ast.Call) and [k.arg for k in node.keywords] == ["extra"]:
                module, extra = node.args[0], node.keywords[0].value
                assert isinstance(module, ast.Constant), path.name
                assert isinstance(extra, ast.Constant), path.name
                yield path, str(module.value), str(extra.value)


def distributions(module: str) -> set[str]:
    """Names of those that bring a module."""
    return {name.lower().replace("_", "-") for name in DISTRIBUTIONS[module]}


def named(requirement: str) -> str:
    """Name of a requirement without its extras and versions."""
    return re.split(r"[^\w.-]", requirement)[0].lower()


def test_the_science_knows_neither_flower_nor_ray_nor_plots(loaded):
    assert "numpy" in loaded["science"]
    assert not {"flwr", "ray", "matplotlib", "jinja2", "sklearn"} & packages(loaded["science"])


def test_the_command_line_loads_quickly(loaded):
    assert "typer" in loaded["command line"]
    heavy = {"flwr", "ray", "matplotlib", "jinja2"}
    assert not heavy & packages(loaded["command line"])


def test_a_ledger_opens_without_flower(loaded):
    assert "sqlalchemy" in loaded["ledger"]
    assert "flwr" not in packages(loaded["ledger"])


def test_a_client_loads_nothing_of_the_server(loaded):
    """A client's app starts anew for every message."""
    own = loaded["clients"]
    assert "flwr_kld.clients.aggregator" in own
    assert not {name for name in own if name.startswith("flwr_kld.strategies")}
    assert not {"scipy", "sqlalchemy", "flwr_kld.infer.estimators"} & own
    more = own - loaded["flower's client side"]
    assert "flwr" not in packages(more)


def test_client_and_server_need_no_extra(loaded):
    extras = {"ray", "matplotlib", "jinja2", "sklearn", "flwr_datasets"}
    assert not extras & packages(loaded["strategies"])


def test_a_server_loads_what_takes_seconds_only_when_it_is_used(loaded):
    assert not {"scipy.stats", "scipy.signal"} & loaded["strategies"]
