"""Which cells moved, in the domain's own words, and how sure that is."""

from flwr_kld.report.explanation.explanation import explain
from flwr_kld.report.explanation.movement import Movement
from flwr_kld.report.explanation.pattern_svg import pattern_svg

__all__ = ["Movement", "explain", "pattern_svg"]
