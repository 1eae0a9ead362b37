"""What ships: one wheel, the four folders under one name, and a science that knows no Flower."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The wheel, installed by itself into an empty folder."""
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*command, "--target", str(target), str(ROOT)], check=True, cwd=target)
    return target


def run(code: str, installed: Path) -> str:
    """Run code that sees the wheel and no editable copy of the project."""
    wheel_only = (
        "import sys\n"
        f"sys.path.insert(0, {str(installed)!r})\n"
        "sys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", wheel_only + code],
        check=True, capture_output=True, text=True, cwd=installed,
    )  # fmt: skip
    return done.stdout


def test_the_wheel_has_everything_under_one_name(installed):
    shown = run(
        "import flwr_kld.strategies, flwr_kld.clients.handwriting, flwr_kld.simulations.demo\n"
        "print(flwr_kld.strategies.__file__, flwr_kld.simulations.demo.APP.exists())",
        installed,
    )
    assert shown.split() == [str(installed / "flwr_kld/strategies/__init__.py"), "True"]
    assert (installed / "flwr_kld/py.typed").exists()
    assert not (installed / "tests").exists()
    assert not (installed / "strategies").exists()


def test_the_science_knows_neither_flower_nor_ray_nor_plots(installed):
    modules = run(
        "import importlib, pathlib\n"
        "for path in pathlib.Path('flwr_kld').rglob('*.py'):\n"
        "    parts = path.with_suffix('').parts\n"
        "    if parts[1] not in ('strategies', 'clients', 'simulations'):\n"
        "        importlib.import_module('.'.join(parts).removesuffix('.__init__'))\n"
        "print(*{name.split('.')[0] for name in sys.modules})",
        installed,
    )
    assert "numpy" in modules.split()
    assert not {"flwr", "ray", "matplotlib", "jinja2", "sklearn"} & set(modules.split())


def test_client_and_server_need_no_extra(installed):
    modules = run(
        "import flwr_kld.strategies, flwr_kld.clients\nprint(*sys.modules)", installed
    ).split()
    assert not {"ray", "matplotlib", "jinja2", "sklearn", "flwr_datasets"} & set(modules)
