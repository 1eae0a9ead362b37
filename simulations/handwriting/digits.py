"""The 1,797 handwritten digits that ship with scikit-learn: real input without a network."""

import numpy as np

from flwr_kld._extras import require
from flwr_kld.clients.handwriting.dataset import Handwriting
from flwr_kld.clients.handwriting.sources import Partitioner, partitioned


def load_digits(clients: Partitioner | int = 10) -> Handwriting:
    """Load the digits and cut them into clients.

    The images are 8x8 with values 0 to 16. They come without writers.
    """
    bunch = require("sklearn.datasets", extra="simulation").load_digits()
    even = clients if isinstance(clients, int) else 1
    sizes = [len(part) for part in np.array_split(bunch.target, even)]
    writer = np.repeat(np.arange(even), sizes)
    digits = Handwriting(bunch.images.astype(np.uint8), bunch.target, writer, pixels="digits")
    return digits if isinstance(clients, int) else partitioned(digits, clients)
