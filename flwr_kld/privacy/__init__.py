"""Noise whose law is exact integers, its calibration, and what it costs."""

from flwr_kld.privacy.bits import BitSource, SeededBits, SystemBits
from flwr_kld.privacy.calibrate import calibrated_gaussian, calibrated_laplace
from flwr_kld.privacy.event import PrivacyEvent
from flwr_kld.privacy.guarantee import Adjacency, Guarantee, Unit
from flwr_kld.privacy.hockey_stick import hockey_stick
from flwr_kld.privacy.sampler import sample
from flwr_kld.privacy.table import NoiseTable

__all__ = [
    "Adjacency",
    "BitSource",
    "Guarantee",
    "NoiseTable",
    "PrivacyEvent",
    "SeededBits",
    "SystemBits",
    "Unit",
    "calibrated_gaussian",
    "calibrated_laplace",
    "hockey_stick",
    "sample",
]
