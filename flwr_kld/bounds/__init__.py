"""Certified lower bound and two-sided interval of D_θ, from noisy counts."""

from flwr_kld.bounds.certified import CertifiedBound, certified_lower_bound
from flwr_kld.bounds.design_effect import DesignEffect
from flwr_kld.bounds.interval import Interval, NoInterval, two_sided_interval
from flwr_kld.bounds.sensitivity import Sensitivity
from flwr_kld.bounds.witness import GROUPS, Witness

__all__ = [
    "GROUPS",
    "CertifiedBound",
    "DesignEffect",
    "Interval",
    "NoInterval",
    "Sensitivity",
    "Witness",
    "certified_lower_bound",
    "two_sided_interval",
]
