"""Thin Flower apps, the in-process grid, virtual handwriters, and real flights."""

from pathlib import Path

APP = Path(__file__).parent / "drift_app"
"""The Flower app of a simulation, as ``flwr run`` takes it."""
