"""Who adds the noise, and what each party sees: the trust models."""

from typing import TYPE_CHECKING

from flwr_kld._extras import on_request

if TYPE_CHECKING:
    from flwr_kld.trust.trust_model import Trust

__all__ = ["Trust"]

__getattr__, __dir__ = on_request(__name__)
