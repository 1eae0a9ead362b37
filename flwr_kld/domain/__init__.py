"""Domains: public rules that turn records into symbols 0 .. size-1."""

from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.domain.categories import Categories
from flwr_kld.domain.labels import Labels
from flwr_kld.domain.rebuild import domain_from_spec

__all__ = ["Binned", "BlockPatterns", "Categories", "Domain", "Labels", "domain_from_spec"]
