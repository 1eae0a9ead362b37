"""Handwriting as federated data: one writer, one client."""

from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.clients.handwriting.sources import load_femnist, load_leaf, load_npz

__all__ = ["Handwriting", "load_femnist", "load_leaf", "load_npz"]
