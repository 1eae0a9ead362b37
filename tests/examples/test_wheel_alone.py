"""A newcomer's first hour with nothing but the wheel: hub app, notebook, an app from a CSV file.

Two aggregators by the wheel alone are in tests/deployment/test_compose.py.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from example_trips import write_trips
from fresh_install import fresh_environment
from patience import HANGS
from recipes import ROOT, run_command

pytestmark = pytest.mark.slow
EXAMPLES = ROOT / "examples"
ON_A_SUPERLINK = """
import subprocess, sys
from pathlib import Path
from flwr_kld.simulations.local_superlink import local_superlink
with local_superlink(Path("flower.log")) as superlink:
    done = subprocess.run(sys.argv[1], shell=True, cwd=sys.argv[2], env=superlink.environment)
sys.exit(done.returncode)
"""
"""Runs a command on a SuperLink of its own: ``flwr run`` would share the one of this machine."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fresh_environment(tmp_path_factory.mktemp("fresh"), "simulation,plots")


class Shell:
    """Runs the environment's programs in a folder, and returns what they print."""

    def __init__(self, programs: Path, home: Path) -> None:
        self.programs, self.home = programs, home
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "MPLBACKEND": "agg"}

    def __call__(self, *words: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(
            [self.programs / words[0], *words[1:]], env=self.environment, cwd=cwd or self.home,
            capture_output=True, text=True, timeout=HANGS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def on_a_superlink(self, line: str, cwd: Path) -> str:
        return self("python", "-P", "-c", ON_A_SUPERLINK, line, cwd)


@pytest.fixture
def shell(programs: Path, tmp_path: Path) -> Shell:
    return Shell(programs, tmp_path)


def test_the_package_is_not_that_of_the_tree(shell: Shell):
    place = shell("python", "-P", "-c", "import flwr_kld; print(flwr_kld.__file__)")
    assert Path(place.strip()).is_relative_to(shell.programs.parent)


def test_the_hubs_app_as_init_writes_it(shell: Shell, tmp_path: Path):
    shell("flwr-kld", "init", "--template", "federated-analytics", "--out", "analytics")
    said = shell.on_a_superlink(run_command("federated-analytics"), tmp_path / "analytics")
    assert "Description of 4 columns of 5 clients" in said


def test_the_notebook(shell: Shell):
    folder = EXAMPLES / "simulation-notebook"
    notebook = json.loads((folder / "study.ipynb").read_text(encoding="utf-8"))
    cells = ("".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code")
    assert "no drift" in shell("python", "-c", "\n".join(cells), cwd=folder)


def test_an_app_from_a_csv_file(shell: Shell, tmp_path: Path):
    sample = write_trips(tmp_path, 0)
    shell("flwr-kld", "init", sample, "--out", "app")
    ledger = f"sqlite:///{tmp_path}/app/drift.db"
    shell.on_a_superlink("flwr run . --stream", tmp_path / "app")
    simulated = ["--ledger", ledger, "--population", "simulated"]
    shell("flwr-kld", "report", "report.json", *simulated)
    (found,) = json.loads((tmp_path / "report.json").read_text())
    assert found["report"]["cohort"]["survivors"] == 2
    shell("flwr-kld", "doctor", "app", "--ledger", ledger)


def test_simulated_writers(shell: Shell, tmp_path: Path):
    shell("flwr-kld", "simulate", "--writers", "100", "--cohort", "50", "--checks", "2")
    assert list((tmp_path / "out" / "simulation").glob("*.png"))
