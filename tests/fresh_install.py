"""What a user installs: an environment of its own with the wheel, and nothing of this tree."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from recipes import ROOT

SHIPPED = ("flwr_kld", "strategies", "clients", "simulations")
TEMPLATE = "examples/federated-analytics"
"""Of `flwr-kld init`."""
UV = Path(sys.executable).with_name("uv")


def copied_source(target: Path) -> Path:
    """Copy what a wheel is made of: setuptools would add modules of earlier builds otherwise."""
    for name in SHIPPED:
        shutil.copytree(ROOT / name, target / name)
    shutil.copytree(ROOT / TEMPLATE, target / TEMPLATE)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    return target


def fresh_environment(home: Path, extras: str) -> Path:
    """Make an environment with the wheel and some extras, and return its folder of programs.

    The wheel is that in ``FLWR_KLD_WHEEL``, or is built from this tree.
    """
    wheel = os.environ.get("FLWR_KLD_WHEEL")
    if wheel is None:
        (source := home / "source").mkdir()
        built = [UV, "build", "--quiet", "--wheel", "--out-dir", home / "dist"]
        subprocess.run([*built, copied_source(source)], check=True)
        (wheel,) = map(str, (home / "dist").glob("*.whl"))
    environment = home / "environment"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    install = [UV, "pip", "install", "--quiet", "--compile-bytecode"]
    python = environment / "bin" / "python"
    subprocess.run([*install, "--python", python, f"{wheel}[{extras}]"], check=True)
    return environment / "bin"
