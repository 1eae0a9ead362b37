"""Alarms over many checks, with a stated rate of false ones."""

from flwr_kld.alarm.e_detector import EDetector, Standing
from flwr_kld.alarm.evidence import Evidence

__all__ = ["EDetector", "Evidence", "Standing"]
