"""Who adds the noise, and what each party sees: the trust models."""

from flwr_kld.trust.trust_model import Trust

__all__ = ["Trust"]
