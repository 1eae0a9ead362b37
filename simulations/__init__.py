"""Thin Flower apps, virtual clients in this process, virtual handwriters, and real flights."""

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
