"""Handwriting as federated data: one writer, one client."""

from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.clients.handwriting.femnist import load_femnist
from flwr_kld.clients.handwriting.leaf import load_leaf
from flwr_kld.clients.handwriting.npz import load_npz
from flwr_kld.clients.handwriting.partition import partitioned

__all__ = ["Handwriting", "load_femnist", "load_leaf", "load_npz", "partitioned"]
