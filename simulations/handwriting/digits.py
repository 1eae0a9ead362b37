"""The 1,797 handwritten digits that ship with scikit-learn: real input without a network."""

import numpy as np

from flwr_kld._extras import require
from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.clients.handwriting.partition import Partitioner, partitioned


def load_digits(clients: Partitioner | int = 10) -> Handwriting:
    """Load the digits and cut them into clients.

    The images are 8x8 with values 0 to 16. They come without writers, so a flwr-datasets
    partitioner makes the clients.

    Parameters
    ----------
    clients : Partitioner or int, default 10
        A flwr-datasets partitioner, for example
        ``DirichletPartitioner(num_partitions=10, partition_by="label", alpha=0.5)``, or a number of
        clients, which means ``IidPartitioner``.

    Returns
    -------
    Handwriting
        ``pixels="digits"``, side 8; the writer is the number of the partition.

    Raises
    ------
    ImportError
        If scikit-learn or flwr-datasets is not installed.
    """
    bunch = require("sklearn.datasets", extra="simulation").load_digits()
    nobody = np.zeros(len(bunch.target), dtype=np.int64)
    digits = Handwriting(bunch.images.astype(np.uint8), bunch.target, nobody, pixels="digits")
    if isinstance(clients, int):
        partitioners = require("flwr_datasets.partitioner", extra="simulation")
        return partitioned(digits, partitioners.IidPartitioner(num_partitions=clients))
    return partitioned(digits, clients)
