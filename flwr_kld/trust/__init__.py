"""Who adds the noise, and what each party sees: the three trust models."""

from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.trust_model import Trust
from flwr_kld.trust.trusted import Trusted
from flwr_kld.trust.trusted_aggregator import TrustedAggregator

__all__ = ["Distributed", "Trust", "Trusted", "TrustedAggregator"]
