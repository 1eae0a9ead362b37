"""Handwriting as federated data: one writer, one client."""

from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.clients.handwriting.digits import load_digits
from flwr_kld.clients.handwriting.femnist import load_femnist
from flwr_kld.clients.handwriting.leaf import load_leaf
from flwr_kld.clients.handwriting.npz import load_npz
from flwr_kld.clients.handwriting.partition import Partitioner, partitioned
from flwr_kld.clients.handwriting.resample import WriterResampler
from flwr_kld.clients.handwriting.source import load_source
from flwr_kld.clients.handwriting.style import StylePopulation, WriterStyle

__all__ = [
    "Handwriting",
    "Partitioner",
    "StylePopulation",
    "WriterResampler",
    "WriterStyle",
    "load_digits",
    "load_femnist",
    "load_leaf",
    "load_npz",
    "load_source",
    "partitioned",
]
