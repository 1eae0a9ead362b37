"""Noise whose law is exact integers, its calibration, and what it costs."""

from flwr_kld.privacy.guarantee import Guarantee, Unit

__all__ = ["Guarantee", "Unit"]
