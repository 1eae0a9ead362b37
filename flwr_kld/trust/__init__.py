"""Who adds the noise, how much, and what each party sees: trust models, and their terms."""

from typing import TYPE_CHECKING

from flwr_kld.common.extras import on_request

if TYPE_CHECKING:
    from flwr_kld.trust.trust_model import Trust

__all__ = ["Trust"]

__getattr__, __dir__ = on_request(__name__)
