"""Thin Flower apps, virtual clients in this process, virtual handwriters, and real flights."""

from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.simulations.in_notebook import simulate
    from flwr_kld.simulations.in_process_grid import InProcessGrid

APP = Path(__file__).parent / "drift_app"
"""The Flower app of a simulation, as ``flwr run`` takes it."""

__all__ = ["InProcessGrid", "simulate"]

__getattr__, __dir__ = on_request(__name__)


def analytics_app() -> dict[str, str]:
    """Return the files of `examples/federated-analytics`, which the wheel has, by their paths."""
    here = Path(__file__).parent
    folder, licence = here / "analytics_app", distribution("flwr-kld").read_text("licenses/LICENSE")
    if not folder.is_dir():  # a clone: pyproject.toml maps that folder into the wheel
        folder = here.parent / "examples" / "federated-analytics"
        licence = (here.parent / "LICENSE").read_text(encoding="utf-8")
    files = (*folder.glob("*.*"), *folder.glob("analytics/*.py"))
    found = {str(file.relative_to(folder)): file.read_text(encoding="utf-8") for file in files}
    return found | {"LICENSE": licence or ""}
